"""Findings: where they go, and what is quoted in them."""

from __future__ import annotations

from egress.rules.language.document import read
from egress.rules.language.report import DocumentCursor, MeaningError, Report, did_you_mean, quoted
from egress.types import Place, Severity


def test_a_place_in_a_document_is_found_by_its_steps() -> None:
    report = Report()
    document, _ = read("f", "a:\n  b: c\n")
    at = DocumentCursor(report, document) / "a" / "b"
    at.error("wrong", "right it")
    at.key_error("odd key")
    at.warning("hm")
    assert [(str(f.place), f.severity, f.message, f.hint) for f in report.findings] == [
        ("f:2:6", Severity.ERROR, "wrong", "right it"),
        ("f:2:3", Severity.ERROR, "odd key", ""),
        ("f:2:6", Severity.WARNING, "hm", ""),
    ]
    assert (report.error_count, report.has_errors) == (2, True)


def test_a_warning_is_no_error() -> None:
    report = Report()
    report.warning(Place("f", 1, 1), "hm")
    assert not report.has_errors
    assert not report.findings[0].is_idle


def test_a_meaning_error_carries_its_hint() -> None:
    error = MeaningError("no", "yes")
    assert (str(error), error.message, error.hint) == ("no", "no", "yes")


def test_quotes_on_one_line_and_without_credentials() -> None:
    assert quoted("a\nb") == "`a?b`"
    assert quoted(3) == "`3`"
    assert quoted("ghp_" + "a1B2" * 9) == "`(hidden: it looks like a credential)`"


def test_names_the_nearest_word_or_all_of_a_few() -> None:
    assert did_you_mean("hots", ["hosts", "deny"]) == "did you mean `hosts`?"
    assert did_you_mean("HOSTS", ["hosts"]) == "did you mean `hosts`?"
    assert did_you_mean("zzz", ["b", "a"]) == "known here: `a`, `b`"
    assert did_you_mean("zzz", [f"word{n}" for n in range(13)]) == ""
    assert did_you_mean("zzz", []) == ""
