"""The values of the interface, and the one text that all kinds put into the log."""

from __future__ import annotations

import pytest

from egress.inspect.inspector import MAX_FACT_CHARS, Facts, fact_text


def test_facts_leave_the_rest_of_a_body_unread_and_are_final_by_default() -> None:
    facts = Facts(("viewer",))
    assert (facts.read, facts.can_improve, dict(facts.log)) == (0, False, {})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("viewer", "viewer"),
        ("a\nb", "a�b"),
        ("\x1b[2J", "�[2J"),
        ("a\u202eb", "a�b"),
        ("x" * MAX_FACT_CHARS, "x" * MAX_FACT_CHARS),
        ("x" * (MAX_FACT_CHARS + 1), "x" * (MAX_FACT_CHARS - 1) + "…"),
    ],
)
def test_a_text_of_a_client_is_printable_and_cut(text: str, shown: str) -> None:
    assert fact_text(text) == shown
