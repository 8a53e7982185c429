"""Judging facts: every item needs a rule, and a deny or a body that cannot be read beats them all."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from egress.inspect.inspector import Facts, Unreadable
from egress.rules.decide.body_gate import body_kind, body_misses, judge_body
from egress.rules.decide.body_predicate import BodyMiss
from egress.rules.decide.entry import Rule
from egress.rules.decide.predicates import Predicates
from egress.types import Place, RuleRef


@dataclass(frozen=True)
class Letters:
    """Covers items by their letters; `?` stands for what the rule knows about it."""

    text: str
    known: str = ""
    kind: str = "graphql"

    def expanded(self, item: object) -> tuple[object, ...] | None:
        return tuple(self.known) if item == "?" and self.known else None

    def misses(self, item: object) -> BodyMiss | None:
        return None if str(item) in self.text else BodyMiss("graphql.field", f"only {self.text}")

    def denies(self, item: object) -> bool:
        return str(item) in self.text

    def fields(self) -> dict[str, str | int | bool | list[object] | dict[str, object]]:  # pragma: no cover
        return {}


def rule(name: str, text: str, known: str = "", kind: str = "graphql") -> Rule:
    return Rule(RuleRef("host", name, Place("f", 1, 1)), Predicates(body=Letters(text, known, kind)))  # type: ignore[arg-type]


PLAIN = Rule(RuleRef("host", "plain", Place("f", 1, 1)), Predicates())
AB, BC = rule("ab", "ab"), rule("bc", "bc")


@pytest.mark.parametrize(
    ("items", "rules", "names", "item"),
    [
        ("a", [AB, BC], ["ab"], ""),
        ("abc", [AB, BC], ["ab", "bc"], ""),
        ("c", [AB, BC], ["bc"], ""),
        ("ad", [AB, BC], [], "d"),
        ("a", [], [], "a"),
        ("", [AB, BC], ["ab", "bc"], ""),
        ("z", [PLAIN], ["plain"], ""),
        ("?", [rule("k", "ab", "ab")], ["k"], ""),
        ("?", [rule("k", "a", "ab")], [], "b"),
        ("?", [AB], [], "?"),
        ("?", [AB, rule("k", "c", "abc")], ["ab", "k"], ""),
    ],
)
def test_each_item_is_covered_by_some_rule(
    items: str, rules: list[Rule], names: list[str], item: str
) -> None:
    judged = judge_body(rules, [], Facts(tuple(items)))
    assert [each.ref.id for each in judged.rules] == names
    assert judged.item == item


def test_any_deny_denies() -> None:
    judged = judge_body([AB, BC], [rule("no", "c")], Facts(("a", "c")))
    assert (judged.rules, judged.item) == ((), "c")
    assert judged.denied_by is not None


def test_a_deny_sees_what_a_stored_document_stands_for() -> None:
    judged = judge_body([rule("k", "ab", "ab")], [rule("no", "b")], Facts(("?",)))
    assert judged.denied_by is not None


def test_a_body_that_cannot_be_read_is_denied_by_its_own_code() -> None:
    judged = judge_body([PLAIN], [], Unreadable("body.json"))
    assert (judged.rules, judged.code, judged.is_unreadable) == ((), "body.json", True)


def test_no_rules_at_all_allow_nothing() -> None:
    assert judge_body([], [], Facts(())).code == "rule.none"


def test_a_body_is_of_one_kind() -> None:
    assert body_kind([AB, BC]) is not None
    assert body_kind([AB, rule("x", "a", kind="other")]) is None


def test_the_first_part_that_failed_is_named() -> None:
    assert body_misses(Letters("ab"), Facts(("a", "z"))) == "only ab"  # type: ignore[arg-type]
    assert not body_misses(Letters("ab"), Facts(("a",)))  # type: ignore[arg-type]
    assert body_misses(Letters("ab"), Unreadable("body.json", "it is not JSON")) == "it is not JSON"  # type: ignore[arg-type]


def test_each_item_has_a_code_of_its_own() -> None:
    judged = judge_body([AB], [], Facts(("a", "z", "b", "y")))
    assert judged.item_codes == ("", "graphql.field", "", "graphql.field")
    denied = judge_body([AB], [rule("no", "b")], Facts(("a", "b")))
    assert denied.item_codes == ("", "rule.denied")
