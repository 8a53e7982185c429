"""Check texts with placeholders `{param.NAME}` when a rule file is read."""

from __future__ import annotations

from egress.rules.decide.rule_template import PLACEHOLDER, PLACEHOLDER_START
from egress.rules.language.report import DocumentCursor

_SAMPLE = "x"
"""A value with which a text is read to find its mistakes."""


def check_placeholders_in(text: str, at: DocumentCursor) -> None:
    """Report placeholders of a text, or of a segment of a path, that cannot stand there."""
    if PLACEHOLDER_START not in text:
        return
    if PLACEHOLDER_START in PLACEHOLDER.sub("", text):
        at.error("this placeholder is not one", "write {param.NAME}")
    if "*" in text:
        at.error(
            "a wildcard stands beside a placeholder",
            "a value is a literal: put the wildcard into another segment, or into the parameter's pattern",
        )


def with_sample(text: str) -> str:
    """Return a text with a value for each placeholder."""
    return PLACEHOLDER.sub(_SAMPLE, text)
