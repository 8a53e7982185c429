"""The index of rules: what it finds, and where it stops. `tests/property` compares it with every pair."""

from __future__ import annotations

from egress.rules.compile.coverage_index import MAX_RULES_FOUND, MAX_STEPS_PER_PATH, RuleIndex
from egress.rules.decide.entry import Rule
from tests.unit.rules.rule_samples import policy


def rules(*texts: str) -> list[Rule]:
    named = ", ".join(f"{{id: r{number}, {text}}}" for number, text in enumerate(texts))
    (entry,) = policy(f"hosts: {{a.example: {{allow: [{named}]}}}}").entries.values()
    return list(entry.allow)


def covering(*texts: str) -> list[str]:
    """The rules that cover the last one."""
    made = rules(*texts)
    return [rule.ref.id for rule in RuleIndex(made).covering(made[-1])]


def test_a_rule_is_covered_by_wider_ones_in_the_order_of_the_file() -> None:
    wide = ["paths: ['/**']", "paths: [/b/*]", "methods: [GET]", "paths: ['/a/**/d']", "paths: ['/*/b*/c/d']"]
    assert covering(*wide, "methods: [GET], paths: [/a/bb/c/d]") == ["r0", "r2", "r3", "r4"]


def test_each_path_of_a_rule_has_to_be_covered() -> None:
    assert covering("paths: [/a/*, /b]", "paths: [/a/x, /b]") == ["r0"]
    assert covering("paths: [/a/*, /b]", "paths: [/a/x, /c]") == []


def test_a_rule_that_looks_inside_covers_nothing() -> None:
    assert covering("paths: [/a], query: {q: '1'}", "paths: [/a]") == []
    assert covering("paths: [/a]", "paths: [/a], query: {q: '1'}") == ["r0"]


def test_the_search_stops_although_more_could_be_found() -> None:
    assert len(covering(*["paths: ['/a/**']"] * (MAX_RULES_FOUND + 5), "paths: [/a/b]")) == MAX_RULES_FOUND
    # The only pattern that covers it stands behind too many others.
    others = [f"paths: ['/{'x' * number}y*']" for number in range(MAX_STEPS_PER_PATH)]
    assert covering(*others, "paths: ['/z*']", "paths: [/zz]") == []
    assert covering(*others[:-5], "paths: ['/z*']", "paths: [/zz]") == [f"r{MAX_STEPS_PER_PATH - 5}"]
