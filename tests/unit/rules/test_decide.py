"""What the verdicts carry, beside what docs/reference/language.md says about them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from egress.errors import CODES
from egress.rules.decide import _MAX_ROUTES as MAX_ROUTES
from egress.rules.decide import decide, decide_host, matching_entries, readings, route_of
from egress.types import Identity
from tests.unit.rules.written import NOW, ask, ask_host, head, policy

BOX = Identity("box")


def test_an_allowed_host_names_its_entry_and_what_holds_for_the_connection() -> None:
    rules = policy("hosts:\n  a.example: {http2: true, limits: {connections: 2}}\nlimits: {connections: 9}\n")
    decision = ask_host(rules, "https://a.example")
    assert (decision.code, decision.entry, str(decision.place)) == (
        "host.allowed",
        "a.example",
        "hosts.yaml:2:3",
    )
    assert decision.http2
    assert [limit.connections for limit in decision.limits] == [9, 2]


def test_a_name_alone_can_be_asked_for_without_a_port() -> None:
    rules = policy("hosts: {a.example: {ports: [8443]}, b.example: {allow: []}}")
    assert decide_host(rules, BOX, "a.example", None, NOW).allowed
    assert not decide_host(rules, BOX, "b.example", None, NOW).allowed
    assert not decide_host(rules, BOX, "c.example", None, NOW).allowed


def test_a_denial_names_its_rule_or_its_entry() -> None:
    rules = policy("hosts:\n  a.example:\n    methods: [GET]\n    deny: [{id: no, paths: [/x]}]\n")
    by_rule, by_entry = ask(rules, "GET https://a.example/x"), ask(rules, "PUT https://a.example/")
    assert (str(by_rule.rule), str(by_rule.place), by_rule.target) == (
        "a.example#no",
        "hosts.yaml:4:12",
        "/x",
    )
    assert (by_entry.rule, str(by_entry.place), by_entry.entry) == (None, "hosts.yaml:2:3", "a.example")


@pytest.mark.parametrize(
    "request_line",
    [
        "GET https://b.example/",
        "TRACE https://a.example/",
        "GET https://a.example/..",
        "PUT https://a.example/",
        "GET https://a.example/x",
        "GET http://a.example/",
        "GET https://a.example:1/",
        "GET https://10.0.0.1/",
        "GET https://A/",
    ],
)
def test_every_code_of_a_denial_is_in_the_list(request_line: str) -> None:
    rules = policy("hosts: {a.example: {methods: [GET], deny: [{id: no, paths: [/x]}]}}")
    decision = ask(rules, request_line)
    assert decision.code in CODES
    assert not decision.allowed
    assert decision.effects.needs == ()


def test_a_tunnel_is_observed_when_it_has_expired_and_observing_says_so() -> None:
    rules = policy("mode: observe\nhosts: {a.example: {intercept: never, expires: 2020-01-01}}")
    assert ask(rules, "GET https://a.example/").observed
    assert ask_host(rules, "https://a.example").observed


def test_a_tunnel_is_closed_to_a_profile_that_narrows_it_away() -> None:
    rules = policy("""
        hosts: {a.example: {intercept: never}, b.example: {}}
        profiles: {p: {hosts: [a.example]}, q: {hosts: [b.example]}}
    """)
    assert ask(rules, "GET https://a.example/", profile="p").allowed
    assert ask(rules, "GET https://a.example/", profile="q").code == "profile.excluded"


def test_lists_every_entry_that_names_a_host_the_chosen_one_first() -> None:
    rules = policy("""
        hosts: {"**.example": {}, "*.b.example": {}, a.b.example: {}, "**.other": {}}
        networks: [{cidr: 10.0.0.0/8}, {cidr: 10.1.0.0/16}]
    """)
    assert [entry.key for entry in matching_entries(rules, "a.b.example")] == [
        "a.b.example",
        "*.b.example",
        "**.example",
    ]
    assert [entry.key for entry in matching_entries(rules, "10.1.0.1")] == ["10.1.0.0/16", "10.0.0.0/8"]
    assert matching_entries(rules, "A.b.example") == []


def test_a_name_that_ends_in_a_digit_is_no_address() -> None:
    assert ask(policy("hosts: {node1: {}, '**.node1': {}}"), "GET https://node1/").allowed
    assert ask(policy("hosts: {'**.node1': {}}"), "GET https://a.node1/").allowed


def test_remembers_the_routes_of_known_hosts_alone() -> None:
    rules = policy('hosts: {a.example: {}, "*.b.example": {}}')
    for name in ("a.example", "x.b.example", "y.b.example", "invented.example", "10.0.0.1"):
        route_of(rules, name)
    assert set(rules.routes) == {"a.example", "x.b.example", "y.b.example"}
    assert rules.routes["x.b.example"] is rules.routes["y.b.example"]


def test_the_memory_of_routes_is_bounded() -> None:
    rules = policy('hosts: {"*.b.example": {}}')
    for number in range(MAX_ROUTES + 10):
        assert route_of(rules, f"n{number}.b.example").entry is not None
    assert len(rules.routes) <= MAX_ROUTES
    assert len(rules.shared_routes) == 1


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("/a/b", ("/a/b",)),
        ("/a%3Ab", ("/a:b",)),
        ("/a%2Fb", ("/a%2Fb", "/a/b")),
        ("/a*b", ("/a%2Ab",)),
        ("/a%20", ("/a%20",)),
    ],
)
def test_a_deny_reads_a_path_in_every_way_a_server_may(path: str, read: tuple[str, ...]) -> None:
    assert readings(path) == read


def test_a_foreign_scheme_is_clear_text() -> None:
    rules = policy("hosts: {a.example: {}}")
    assert decide_host(rules, BOX, "a.example", 443, NOW, scheme="ftp").code == "host.cleartext"


def test_an_injected_request_goes_out_encrypted_or_not_at_all() -> None:
    rules = policy("""
        secrets: {one: {from: "env:ONE", hosts: [a.example]}}
        hosts: {a.example: {allow: all, inject: [{bearer: one}]}}
    """)
    (entry,) = rules.entries.values()
    forced = replace(
        rules, entries={key: replace(entry, clear_ports=frozenset({80})) for key in rules.entries}
    )
    assert decide(forced, BOX, head("GET http://a.example/"), NOW).code == "secret.unbound"
    assert decide(rules, BOX, head("GET https://a.example/"), NOW).allowed
