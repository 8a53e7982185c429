"""The compiled values: what they answer about themselves."""

from __future__ import annotations

from egress.rules.decide.decision import route_of
from egress.rules.decide.policy import EMPTY_POLICY
from tests.unit.rules.rule_samples import policy


def test_nothing_at_all_is_a_policy() -> None:
    assert EMPTY_POLICY.ports == frozenset()
    assert EMPTY_POLICY.mode == "enforce"


def test_a_binding_shows_its_port_where_it_is_not_443() -> None:
    rules = policy("secrets: {s: {from: 'env:A', hosts: [a.example, 'b.example:8443', '*.c.example:443']}}")
    assert [str(binding) for binding in rules.secrets["s"].bindings] == [
        "a.example",
        "b.example:8443",
        "*.c.example",
    ]


def test_a_secret_is_bound_to_hosts_and_ports() -> None:
    secret = policy("secrets: {s: {from: 'env:A', hosts: [a.example, '*.b.example:8443']}}").secrets["s"]
    assert secret.is_bound_to("a.example", 443)
    assert secret.is_bound_to("x.b.example", 8443)
    assert not secret.is_bound_to("a.example", 8443)
    assert not secret.is_bound_to("x.b.example", 443)
    assert not secret.is_bound_to("b.example", 8443)


def test_where_a_secret_comes_from_is_not_shown() -> None:
    secret = policy("secrets: {s: {from: 'env:VERY_PRIVATE', hosts: [a.example]}}").secrets["s"]
    assert "VERY_PRIVATE" not in repr(secret)


def test_a_whole_entry_says_so() -> None:
    found = policy(
        "hosts: {a.example: {}, b.example: {methods: [GET]}, c.example: {allow: []}, d.example: {allow: all}}"
    )
    assert [entry.is_whole for entry in found.entries.values()] == [True, False, False, True]


def test_the_caches_are_no_part_of_what_a_policy_is() -> None:
    one, other = policy("hosts: {a.example: {}}"), policy("hosts: {a.example: {}}")
    route_of(one, "a.example")
    assert one.routes
    assert one.shared_routes
    assert one == other
    assert "routes" not in repr(one)
