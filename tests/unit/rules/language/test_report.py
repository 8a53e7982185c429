"""Findings: where they go, and what is quoted in them."""

from __future__ import annotations

import pytest

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


def test_of_many_words_those_alike_in_length_and_beginning_are_compared() -> None:
    many = [f"other{number}.example.com" for number in range(5000)]
    assert did_you_mean("apu.example.com", [*many, "api.example.com"]) == "did you mean `api.example.com`?"
    assert did_you_mean("pai.example.com", [*many, "api.example.com"]) == ""
    assert did_you_mean("a" * 65, ["a" * 64]) == f"known here: {quoted('a' * 64)}"
    assert did_you_mean("a" * 63, ["a" * 65]) == f"known here: {quoted('a' * 65)}"


def test_a_file_of_thousands_of_mistakes_is_read_in_little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each mistake looks for the word that was meant; without a bound that is the square of them."""
    compared: list[int] = []

    def counted(word: str, known: list[str], **_: object) -> list[str]:
        compared.append(len(known))
        return []

    monkeypatch.setattr("difflib.get_close_matches", counted)
    for number in range(1000):
        did_you_mean(f"name{number}", [f"name{other}" for other in range(1000)])
    assert max(compared) <= 100
