"""Delegations are compiled strictly: a mistake in one delegates nothing."""

from __future__ import annotations

import pytest

from egress.rules.compile import policy_writer
from tests.unit.rules.rule_samples import errors, policy, source

FILE = "hosts: {{a.example: {{}}}}\nprofiles: {{default: {{hosts: [a.example]}}}}\ndelegate:\n  - {}\n"


def test_the_defaults_are_those_of_a_host() -> None:
    (made,) = policy("delegate: [{id: x, to: {sandboxes: ['*']}, ttl: 90, hosts: [A.Example]}]").delegations
    assert (made.id, made.ttl) == ("x", 90)
    assert made.ports == {443}
    assert made.kinds == {"allow", "deny"}
    assert [str(pattern) for pattern in made.hosts] == ["a.example"]
    assert not made.predicates
    assert not made.profiles


def test_profiles_alone_delegate_no_request() -> None:
    text = FILE.format("{id: x, to: {profiles: [default]}, ttl: 1d, profiles: [default]}")
    (made,) = policy(text).delegations
    assert made.kinds == {"profile"}
    assert made.profiles == {"default"}
    assert made.holders == frozenset({"default"})
    assert made.hosts == ()


def test_files_of_a_folder_add_their_delegations_up() -> None:
    one = "hosts: {}\ndelegate: [{id: x, to: {sandboxes: ['*']}, ttl: 9, hosts: [a.example]}]"
    other = one.replace("id: x", "id: y")
    rules = policy(source(one, "a.yaml"), source(other, "b.yaml"))
    assert [each.id for each in rules.delegations] == ["x", "y"]
    (found,) = errors(source(one, "a.yaml"), source(one, "b.yaml"))
    assert "b.yaml" in found
    assert "duplicate id `x` (first at a.yaml" in found


def test_a_port_that_may_be_allowed_is_listened_on() -> None:
    item = "{id: x, to: {sandboxes: ['*']}, ttl: 9, hosts: [b.example], ports: [8443]}"
    assert policy(f"delegate: [{item}]").ports == {8443}
    assert policy(f"delegate: [{item.replace('ports: [8443]', 'may: [deny]')}]").ports == set()


@pytest.mark.parametrize(
    ("item", "found"),
    [
        ("{}", "4:5: the key `id` is missing"),
        ("{id: X, to: {sandboxes: ['*']}, ttl: 9, hosts: [b.example]}", "4:10: `X` is not a rule id"),
        ("{id: x, to: {}, ttl: 9, hosts: [b.example]}", "4:13: this is delegated to no sandbox"),
        ("{id: x, to: {sandboxes: []}, ttl: 9, hosts: [b.example]}", "4:18: "),
        ("{id: x, to: {sandboxes: ['A b']}, ttl: 9, hosts: [b.example]}", "`A b` is not a pattern for names"),
        ("{id: x, to: {profiles: [nobody]}, ttl: 9, hosts: [b.example]}", "unknown profile `nobody`"),
        ("{id: x, to: {sandboxes: ['*']}, ttl: 9}", "4:5: nothing is delegated here"),
        ("{id: x, to: {sandboxes: ['*']}, ttl: 9, profiles: [none]}", "unknown profile `none`"),
        ("{id: x, to: {sandboxes: ['*']}, ttl: 9, hosts: []}", "4:45: "),
        ("{id: x, to: {sandboxes: ['*']}, ttl: 9, hosts: [a..b]}", "4:53: the host name has an empty label"),
        ("{id: x, to: {sandboxes: ['*']}, ttl: 9, hosts: ['*']}", "4:53: an asterisk"),
        ("{id: x, to: {sandboxes: ['*']}, ttl: 0, hosts: [b.example]}", "a duration must be at least"),
        ("{id: x, to: {sandboxes: ['*']}, ttl: 8d, hosts: [b.example]}", "ends after 7 days at most"),
        ("{id: x, to: {sandboxes: ['*']}, ttl: soon, hosts: [b.example]}", "this is not a duration"),
        ("{id: x, to: {sandboxes: ['*']}, ttl: 9, hosts: [b.example], may: [all]}", "4:71: "),
        ("{id: x, to: {sandboxes: ['*']}, ttl: 9, hosts: [b.example], methods: [get]}", "must be upper case"),
        ("{id: x, to: {sandboxes: ['*']}, ttl: 9, hosts: [b.example], paths: [a]}", "begin with a slash"),
        ("{id: x, to: {sandboxes: ['*']}, ttl: 9, hosts: [b.example], ports: [0]}", "4:73: "),
        (
            "{id: x, to: {sandboxes: ['*']}, ttl: 9, hosts: [b.example], may: [deny], ports: [80]}",
            "`ports` has no effect: a deny holds on every port",
        ),
        (
            "{id: x, to: {sandboxes: ['*']}, ttl: 9, profiles: [default], paths: [/a]}",
            "`paths` has no effect without `hosts`",
        ),
        ("{id: x, to: {sandboxes: ['*']}, ttl: 9, hosts: [b.example], inject: []}", "unknown key `inject`"),
        ("{id: x, to: {sandboxes: ['*']}, ttl: 9, hosts: [b.example], secrets: {}}", "unknown key `secrets`"),
    ],
)
def test_a_mistake_is_told_with_its_place(item: str, found: str) -> None:
    assert any(found in line for line in errors(FILE.format(item))), errors(FILE.format(item))


def test_profiles_are_named_where_there_are_some() -> None:
    (found,) = errors("delegate: [{id: x, to: {sandboxes: ['*']}, ttl: 9, profiles: [p]}]")
    assert "these rules have no profiles" in found


def test_what_is_written_out_is_read_as_the_same() -> None:
    rules = policy("""
        hosts: {a.example: {}}
        profiles: {default: {hosts: [a.example]}}
        delegate:
          - id: downloads
            to: {sandboxes: ["agent-*", ci], profiles: [default]}
            ttl: 10m
            may: [allow]
            hosts: ["*.b.example", c.example]
            ports: [443, 8443]
            methods: [GET, HEAD]
            paths: [/a/**, "/b/*.zip"]
            profiles: [default]
          - {id: stop, to: {sandboxes: ["*"]}, ttl: 1d, hosts: [a.example], may: [deny]}
    """)
    again = policy(policy_writer.as_text(rules))
    for one, other in zip(rules.delegations, again.delegations, strict=True):
        assert policy_writer.delegation_fields(one) == policy_writer.delegation_fields(other)
        assert (one.kinds, one.predicates, one.ttl) == (other.kinds, other.predicates, other.ttl)
    data = policy_writer.as_data(rules)["delegate"]
    assert isinstance(data, list)
    assert [item["id"] for item in data] == ["downloads", "stop"]
