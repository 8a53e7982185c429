"""Entries: one host from all the places that say something about it."""

from __future__ import annotations

import pytest

from egress.rules.compile.entries import METADATA_ADDRESSES
from egress.rules.decide.entry import Entry
from egress.types import Cookies, Limit, Redirects, Scrub
from tests.unit.rules.rule_samples import errors, policy, warnings


def entry(text: str, preset: str = "title: P\n") -> Entry:
    (found,) = policy(text, presets={"p": preset}).entries.values()
    return found


def test_an_entry_keeps_its_key_as_written_and_its_place() -> None:
    found = entry("hosts:\n  API.Example.: {}\n")
    assert (found.key, str(found.place), str(found.pattern)) == (
        "API.Example.",
        "hosts.yaml:2:3",
        "api.example",
    )


def test_the_defaults() -> None:
    found = entry("hosts: {a.example: {}}")
    assert (found.ports, found.clear_ports, found.intercept, found.http2) == (
        frozenset({443}),
        frozenset(),
        True,
        False,
    )
    assert (found.mode, found.expires, found.addresses, found.misplaced_pass) == (None, None, (), False)


PRESET = """
title: P
hosts:
  a.example:
    allow: [{id: it}]
    ports: [8443]
    http2: true
    misplaced: pass
    addresses: [10.0.0.0/8]
    redirects: deny
    limits: {connections: 3}
"""


def test_the_file_takes_the_place_of_what_it_writes_and_leaves_the_rest() -> None:
    found = entry("use: [p]\nhosts: {a.example: {scrub: block, ports: [443]}}\n", PRESET)
    assert found.ports == {443}
    assert found.addresses == ("10.0.0.0/8",)
    assert (found.http2, found.misplaced_pass) == (True, True)
    assert (found.handling.redirects, found.handling.scrub) == (Redirects.DENY, Scrub.BLOCK)
    assert isinstance(found.handling.limit, Limit)


@pytest.mark.parametrize(
    ("key", "name", "value"),
    [("scrub: 'off'", "scrub", Scrub.OFF), ("cookies: pass", "cookies", Cookies.PASS)],
)
def test_what_the_file_does_not_say_of_the_treatment_stays(key: str, name: str, value: object) -> None:
    preset = f"title: P\nhosts: {{a.example: {{allow: all, {key}}}}}\n"
    found = entry("use: [p]\nhosts: {a.example: {redirects: deny}}\n", preset)
    assert getattr(found.handling, name) == value
    assert found.handling.redirects == Redirects.DENY


def test_a_deny_of_a_preset_alone_opens_nothing() -> None:
    preset = {"p": "title: P\nhosts: {a.example: {deny: [{id: no, paths: [/x]}]}}\n"}
    for text in ("use: [p]\n", "use: [p]\nhosts: {a.example: {}}\n"):
        assert [line for line in errors(text, presets=preset) if "no `allow`" in line]


def test_nothing_is_injected_into_a_tunnel_that_the_file_makes_of_a_preset() -> None:
    preset = """
title: P
secrets: {s: {from: 'env:S', hosts: [a.example]}}
hosts: {a.example: {allow: all, inject: [{bearer: s}]}}
"""
    text = "use: [p]\nsecrets: {s: {from: 'env:S', hosts: [a.example]}}\n"
    assert [
        line
        for line in errors(f"{text}hosts: {{a.example: {{intercept: never}}}}\n", presets={"p": preset})
        if "no credential can be injected" in line
    ]


@pytest.mark.parametrize(
    ("key", "name", "value"),
    [
        ("http2: false", "http2", False),
        ("misplaced: deny", "misplaced_pass", False),
        ("addresses: [10.9.0.0/16]", "addresses", ("10.9.0.0/16",)),
        ("addresses: []", "addresses", ()),
        ("intercept: always", "intercept", True),
    ],
)
def test_each_key_of_the_file_wins(key: str, name: str, value: object) -> None:
    assert getattr(entry(f"use: [p]\nhosts: {{a.example: {{{key}}}}}\n", PRESET), name) == value


def test_a_tunnel_of_a_preset_can_be_opened_by_the_file() -> None:
    preset = "title: P\nhosts: {a.example: {intercept: never}}\n"
    assert not entry("use: [p]\n", preset).intercept
    assert entry("use: [p]\nhosts: {a.example: {intercept: always}}\n", preset).intercept


@pytest.mark.parametrize("key", ["websocket: true", "encoded_slash: data"])
def test_a_switch_acts_on_the_rule_of_its_own_part(key: str) -> None:
    alone = entry(f"hosts: {{a.example: {{{key}}}}}").allow[0].predicates
    assert alone.websocket or alone.encoded_slash
    assert len(errors(f"use: [p]\nhosts: {{a.example: {{{key}}}}}\n", presets={"p": PRESET})) == 1
    theirs, mine = entry(f"use: [p]\nhosts: {{a.example: {{allow: all, {key}}}}}\n", PRESET).allow
    assert not theirs.predicates
    assert mine.predicates == alone


def test_the_lists_of_preset_and_file_stand_together() -> None:
    found = entry(
        "use: [p]\nhosts: {a.example: {allow: [{id: mine}], deny: [{id: no, paths: [/x]}]}}\n", PRESET
    )
    assert [rule.ref.id for rule in (*found.allow, *found.deny)] == ["p-it", "mine", "no"]


def test_the_metadata_addresses_are_worth_a_word() -> None:
    for address in METADATA_ADDRESSES:
        wide = f"{address}/{address.max_prefixlen - 8}"
        text = f"hosts: {{a.example: {{addresses: ['{address}/{address.max_prefixlen}']}}}}"
        assert warnings(text) == []
        assert errors(text) == []
        assert errors(f"hosts: {{a.example: {{addresses: ['{wide}']}}}}") != []
    assert len(warnings("networks: [{cidr: 168.63.0.0/16}]")) == 1


def test_an_entry_whose_injections_were_all_refused_still_needs_allow() -> None:
    found = errors("hosts: {a.example: {inject: [{}]}}")
    assert [line.split(": ", 1)[1].split(" (")[0] for line in found] == [
        "this entry has `deny` or `inject` but no `allow`",
        "an item of `inject` needs exactly one kind, this one has none",
    ]


@pytest.mark.parametrize("address", ["169.254.169.254", "fd00:ec2::254", "168.63.129.16", "100.100.100.200"])
def test_these_are_the_metadata_addresses(address: str) -> None:
    assert address in [str(known) for known in METADATA_ADDRESSES]


def test_a_list_of_injections_beside_a_preset_needs_allow_even_when_it_is_empty() -> None:
    preset = {"p": "title: P\nhosts: {a.example: {}}\n"}
    (found,) = errors("use: [p]\nhosts: {a.example: {inject: []}}\n", presets=preset)
    assert "no `allow`" in found


def test_an_entry_that_a_preset_opens_too_is_the_files() -> None:
    found = entry("use: [p]\nhosts: {A.Example: {websocket: true}}\n", "title: P\nhosts: {a.example: {}}\n")
    assert (found.key, found.place.via) == ("A.Example", "")
    assert found.allow[0].predicates.websocket


def test_a_tunnel_may_have_tests() -> None:
    assert not errors("hosts: {a.example: {intercept: never, tests: ['GET / -> allow']}}")
