"""A line of the log is answered by the rules at hand, and says whether they are those that decided it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from egress.review.drafting import LineSuggestion, suggest_for_line
from egress.review.entry import LogEntry, parse
from egress.rules.compile.load import RuleText, load
from tests.unit.review.drafting.sample import NOW, denied

RULES = [
    RuleText(
        "hosts.yaml",
        "version: 1\nhosts:\n  api.example.com:\n    allow: [{ id: read, methods: [GET], paths: [/a] }]\n",
    )
]
POLICY = load(RULES, {}, NOW).policy


def line(fields: Mapping[str, object]) -> LogEntry:
    return parse(json.dumps({"seq": 1, "time": "2100-01-01T00:00:00.000000Z", **fields, "mac": ""}).encode())


def answer(fields: Mapping[str, object]) -> LineSuggestion:
    found = suggest_for_line(line(fields), RULES, POLICY, NOW)
    assert found is not None
    return found


def test_the_request_of_the_line_is_what_the_change_allows() -> None:
    found = answer(denied("rule.none", "POST", path="/b"))
    assert (found.request.method, found.request.path) == ("POST", "/b")
    assert found.suggestion.outcome.startswith("allow")


def test_the_address_that_was_dialled_counts() -> None:
    """A name that leads into the own network is never opened."""
    found = answer(denied("host.unknown", host="new.example.com", address="127.0.0.1"))
    assert not found.suggestion.steps
    assert answer(denied("host.unknown", host="new.example.com")).suggestion.steps


def test_rules_are_current_as_long_as_they_are_those_that_decided() -> None:
    assert POLICY is not None
    assert answer(denied("rule.none", "POST", policy=POLICY.digest)).is_current
    assert not answer(denied("rule.none", "POST", policy="0" * 64)).is_current


def test_rules_with_errors_are_never_current() -> None:
    found = suggest_for_line(line(denied("rule.none", policy="")), [RuleText("hosts.yaml", "[")], None, NOW)
    assert found is not None
    assert not found.is_current
    assert not found.suggestion.steps


def test_a_line_without_a_request_has_no_suggestion() -> None:
    assert suggest_for_line(line({"event": "reloaded"}), RULES, POLICY, NOW) is None
