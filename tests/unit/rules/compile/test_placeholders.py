"""Placeholders in a text: which of them can stand there, and what the text looks like with a value."""

from __future__ import annotations

import pytest

from egress.rules.compile.placeholders import check_placeholders_in, with_sample
from egress.rules.language.document import Document
from egress.rules.language.report import DocumentCursor, Report


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain*", []),
        ("a-{param.repo}-{param.base}", []),
        ("{param.repo", ["not one"]),
        ("{param.}", ["not one"]),
        ("{param.repo}*", ["wildcard"]),
        ("{param.a b}*", ["not one", "wildcard"]),
    ],
)
def test_a_placeholder_is_whole_and_stands_beside_no_wildcard(text: str, said: list[str]) -> None:
    report = Report()
    check_placeholders_in(text, DocumentCursor(report, Document("hosts.yaml")))
    assert len(report.findings) == len(said)
    assert all(word in finding.message for word, finding in zip(said, report.findings, strict=True))


def test_a_sample_takes_the_place_of_each() -> None:
    assert with_sample("/{param.a}/b/{param.c}") == "/x/b/x"
    assert with_sample("/{param.}/*") == "/{param.}/*"
