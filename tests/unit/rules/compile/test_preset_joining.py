"""Joined uses: equal rules are kept once, and no injection is left without a rule."""

from __future__ import annotations

from egress.rules.decide.entry import Entry
from tests.unit.rules.rule_samples import policy

PRESET = {
    "p": """
        title: P
        parameters:
          secret: {type: secret, help: S., default: s}
          paths: {type: list of path, help: P., default: []}
        secrets: {"${secret}": {from: "env:S", hosts: [p.example]}}
        hosts:
          p.example:
            allow: [{id: both, paths: [/both]}, {id: own, paths: ["/${paths}"]}]
            deny: [{id: no, paths: [/no]}, {id: not, paths: ["/no/${paths}"]}]
            inject:
              - {bearer: "${secret}", for: [both]}
              - {query: {name: q, secret: "${secret}"}, for: [both, own]}
              - {cookie: {name: c, secret: "${secret}"}}
    """
}


def joined(text: str) -> Entry:
    (entry,) = policy(text, presets=PRESET).entries.values()
    return entry


def served(entry: Entry) -> list[tuple[str, str, set[str] | None]]:
    return [
        (item.injection.secret, str(item.injection.slots[0]), None if item.rules is None else set(item.rules))
        for item in entry.inject
    ]


def test_a_single_use_stays_as_it_is_written() -> None:
    entry = joined("use: [{p: {paths: [a]}}]")
    assert served(entry) == [
        ("s", "header:authorization", {"p-both"}),
        ("s", "query:q", {"p-both", "p-own"}),
        ("s", "cookie:c", None),
    ]


def test_equal_rules_are_kept_once_and_injections_follow() -> None:
    entry = joined("use: [{p: {paths: [a], secret: s1}}, {p: {paths: [b], secret: s2}, as: x}]")
    assert [rule.ref.id for rule in (*entry.allow, *entry.deny)] == [
        *("p-both", "p-own", "x-own"),
        *("p-no", "p-not", "x-not"),
    ]
    assert served(entry) == [
        ("s1", "header:authorization", {"p-both"}),
        ("s1", "query:q", {"p-both", "p-own"}),
        ("s1", "cookie:c", {"p-both", "p-own"}),
        ("s2", "query:q", {"x-own"}),
        ("s2", "cookie:c", {"x-own"}),
    ]


def test_a_use_that_adds_nothing_brings_no_credential() -> None:
    entry = joined("use: [{p: {paths: [a], secret: s1}}, {p: {paths: [a], secret: s2}, as: x}]")
    assert {secret for secret, _, _ in served(entry)} == {"s1"}
