"""Compiled entries and rules: plain values, equal where they say the same."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from egress.rules.decide.entry import Entry
from tests.unit.rules.rule_samples import policy

TEXT = "hosts: {a.example: {ports: [443, 8443], http: true, allow: [{id: read, methods: [GET]}]}}"


def test_the_same_text_makes_equal_entries() -> None:
    assert policy(TEXT).entries == policy(TEXT).entries


def test_an_entry_cannot_be_changed_afterwards() -> None:
    (entry,) = policy(TEXT).entries.values()
    with pytest.raises(FrozenInstanceError):
        entry.intercept = False  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        entry.allow[0].expires = 0  # type: ignore[misc]


def test_whole_means_that_nothing_but_the_host_was_written() -> None:
    (plain,) = policy("hosts: {a.example: {}}").entries.values()
    (narrow,) = policy(TEXT).entries.values()
    assert plain.is_whole
    assert not narrow.is_whole


def test_what_an_entry_does_not_say_is_the_careful_choice() -> None:
    said = {field.name: field.default for field in fields(Entry)}
    assert said["intercept"] is True
    assert [said[name] for name in ("http2", "misplaced_pass", "is_whole")] == [False] * 3
