"""Routes and plans: the gates of one method, and what all matching rules ask for together."""

from __future__ import annotations

import pytest

from egress.rules.decide.decision import route_of
from egress.rules.decide.globs import path_glob
from egress.rules.decide.host_route import (
    HostRoute,
    MethodPlan,
    allow_path_fits,
    deny_path_fits,
    is_live,
    looks_at_paths,
    takes_method,
)
from egress.rules.decide.policy import Policy
from egress.rules.decide.predicates import Predicates
from egress.types import Head, Redirects, Scrub
from tests.unit.rules.rule_samples import NOW, policy


def route(entry: str) -> HostRoute:
    return route_of(policy(f"hosts: {{a.example: {entry}}}"), "a.example")


def plan(entry: str, method: str = "GET") -> MethodPlan:
    return route(entry).plan(method)


def fitting(
    entry: str, path: str, *, websocket: bool = False, query: str = "", method: str = "GET"
) -> list[str]:
    head = Head(method, "https", "a.example", 443, path, (), websocket)
    return [rule.ref.id for rule in plan(entry, method).allow.fitting(path, query, head, NOW)[0]]


RULES = "{allow: [{id: a, paths: [/x, '/y/**']}, {id: b}, {id: c, paths: ['/**']}, {id: d, methods: [PUT]}]}"


def test_the_rules_that_fit_come_in_the_order_of_the_file() -> None:
    assert fitting(RULES, "/x") == ["a", "b", "c"]
    assert fitting(RULES, "/z") == ["b", "c"]
    assert fitting(RULES, "/z", method="PUT") == ["b", "c", "d"]
    assert fitting(RULES, "*") == ["b"]


def test_a_plan_is_made_once_for_each_method_that_rules_name() -> None:
    made = route(RULES)
    assert made.plan("PUT") is made.plan("PUT")
    assert made.plan("GET") is made.plan("INVENTED") is made.plan("")
    assert made.plan("GET") is not made.plan("PUT")


def test_an_encoded_slash_fits_only_the_rules_that_take_it() -> None:
    entry = "{allow: [{id: a, encoded_slash: data}, {id: b}]}"
    assert fitting(entry, "/x%2Fy") == ["a"]
    assert fitting(entry, "/x") == ["a", "b"]


def test_an_upgrade_fits_only_the_rules_that_take_it() -> None:
    entry = "{allow: [{id: a, websocket: true}, {id: b}]}"
    assert fitting(entry, "/x", websocket=True) == ["a"]
    head = Head("GET", "https", "a.example", 443, "/", (), websocket=True)
    assert plan("{allow: [{id: b}]}").allow.fitting("/", "", head, NOW) == ([], True)


def test_without_rules_nothing_fits_and_nothing_is_denied() -> None:
    assert fitting("{allow: []}", "/") == []
    assert plan("{}").deny.first(("/",), "", Head("GET", "https", "a.example", 443, "/")) is None


@pytest.mark.parametrize(
    ("entry", "strict"),
    [
        ("{}", False),
        ("{paths: ['/**']}", False),
        ("{paths: [/a]}", True),
        ("{allow: all, deny: [{id: n, paths: [/a]}]}", True),
    ],
)
def test_a_route_is_strict_where_a_rule_looks_at_paths(entry: str, strict: bool) -> None:
    assert route(entry).strict_paths is strict


def test_a_route_knows_its_methods_and_their_odd_cases() -> None:
    made = route("{methods: [GET, PropFind]}")
    assert made.scopes_methods
    assert made.is_odd_case("propfind")
    assert made.is_odd_case("PROPFIND")
    assert not made.is_odd_case("PropFind")
    assert not made.is_odd_case("QUERY")
    assert not route("{}").scopes_methods


def test_the_memory_of_effects_is_bounded_and_right() -> None:
    rules = ", ".join(
        f"{{id: r{n}, paths: [/{n}, /all], limits: {{connections: {n + 1}}}}}" for n in range(12)
    )
    made = route(f"{{allow: [{rules}]}}")
    (entry,) = [made.entry] if made.entry else []
    for mask in range(1, 1 << 11):
        some = [rule for n, rule in enumerate(entry.allow) if mask >> n & 1]
        found = made.effects(some, None)
        assert [limit.connections for limit in found.limits] == [n + 1 for n in range(12) if mask >> n & 1]
        assert made.effects(some, None) is found
        assert len(made._effects) <= 1024


def test_of_several_rules_the_strictest_treatment_holds() -> None:
    made = route("{allow: [{id: a}, {id: b, scrub: 'off', redirects: signed}, {id: c, scrub: block}]}")
    (a, b, c) = made.entry.allow if made.entry else ()
    assert made.effects([a], None).scrub is Scrub.MASK
    assert made.effects([a, b], None).scrub is Scrub.MASK
    assert made.effects([a, b, c], None).scrub is Scrub.BLOCK
    assert made.effects([b], None).redirects is Redirects.SIGNED
    assert made.effects([a, b], None).redirects is Redirects.PASS


def test_a_method_that_no_rule_names_is_no_other_one() -> None:
    assert fitting("{methods: [X]}", "/", method="X")
    for method in ("Y", "FOO", ""):
        assert not fitting("{methods: [X]}", "/", method=method)


def test_one_of_several_patterns_of_a_deny_is_enough_on_mixed_readings() -> None:
    predicates = Predicates(paths=(path_glob("/a/b/c%2Fd", encoded_slash=True), path_glob("/other")))
    assert deny_path_fits(predicates, ("/a%2Fb/c%2Fd", "/a/b/c/d"))
    assert not deny_path_fits(predicates, ("/a%2Fb/c%2Fe", "/a/b/c/e"))


def test_without_an_entry_only_the_limits_of_the_file_hold() -> None:
    rules = policy("mode: observe\nlimits: {connections: 2}")
    made = route_of(rules, "a.example")
    assert [limit.connections for limit in made.effects((), rules.limit).limits] == [2]
    assert route_of(Policy(), "a.example").effects((), None).limits == ()


def test_one_rule_alone() -> None:
    predicates = (
        next(iter(policy("hosts: {a.example: {methods: [GET], paths: [/x]}}").entries.values()))
        .allow[0]
        .predicates
    )
    assert allow_path_fits(predicates, "/x")
    assert not allow_path_fits(predicates, "/X")
    assert deny_path_fits(predicates, ("/X/",))
    assert allow_path_fits(Predicates(), "/any")
    assert deny_path_fits(Predicates(), ("/any",))
    assert not allow_path_fits(Predicates(paths=()), "/any")
    assert not deny_path_fits(Predicates(paths=()), ("/any",))
    assert takes_method(predicates, "GET")
    assert not takes_method(predicates, "")
    assert takes_method(Predicates(), "")
    assert not looks_at_paths(Predicates())


def test_a_rule_lives_until_its_second() -> None:
    (entry,) = policy(
        "hosts: {a.example: {allow: [{id: a, expires: '2027-01-15T08:00:00Z'}, {id: b}]}}"
    ).entries.values()
    assert [is_live(rule, NOW - 1) for rule in entry.allow] == [True, True]
    assert [is_live(rule, NOW) for rule in entry.allow] == [False, True]
