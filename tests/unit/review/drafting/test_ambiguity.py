"""Two readings of a policy: the truth lies between them."""

from __future__ import annotations

from egress.review.drafting.ambiguity import read_both_ways
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.decision import decide, decide_host
from egress.rules.decide.policy import Policy
from egress.types import Head, Identity

WHO = Identity("test")


def policy(rules: str) -> Policy:
    loaded = load([RuleText("hosts.yaml", f"version: 1\nhosts:\n  a.example.com:\n{rules}")])
    assert loaded.policy is not None, loaded.findings
    return loaded.policy


def both(rules: str, path: str = "/x") -> tuple[bool, bool]:
    read = read_both_ways(policy(rules))
    head = Head("GET", "https", "a.example.com", 443, path)
    return decide(read.lenient, WHO, head, 0).allowed, decide(read.strict, WHO, head, 0).allowed


def test_rules_that_look_at_nothing_more_are_in_no_doubt() -> None:
    one = policy("    methods: [GET]\n")
    assert read_both_ways(one).is_certain
    assert read_both_ways(one).lenient is one


def test_an_allow_that_looks_inside_may_fit_or_not() -> None:
    assert both("    allow:\n      - {id: q, query: {page: '1'}}\n") == (True, False)


def test_a_deny_that_looks_inside_may_fit_or_not_and_closes_no_host() -> None:
    rules = "    allow: all\n    deny:\n      - {id: d, content_type: [text/plain]}\n"
    assert both(rules) == (True, False)
    read = read_both_ways(policy(rules))
    assert decide_host(read.strict, WHO, "a.example.com", 443, 0).allowed


def test_paths_and_methods_of_such_a_rule_still_hold() -> None:
    rules = "    allow: all\n    deny:\n      - {id: d, paths: [/y], headers: {x-a: '*'}}\n"
    assert both(rules) == (True, True)
    assert both(rules, "/y") == (True, False)
    assert both(rules, "/a//b") == (False, False)


def test_a_top_deny_is_read_too() -> None:
    text = "version: 1\nhosts:\n  a.example.com: {}\ndeny:\n  - {id: d, query: {x: '*'}}\n"
    loaded = load([RuleText("hosts.yaml", text)])
    assert loaded.policy is not None
    read = read_both_ways(loaded.policy)
    head = Head("GET", "https", "a.example.com", 443, "/")
    assert (decide(read.lenient, WHO, head, 0).allowed, decide(read.strict, WHO, head, 0).allowed) == (
        True,
        False,
    )
