"""Names of things, by their shape alone."""

from __future__ import annotations

import pytest

from egress.review.drafting.path_identifiers import ASTERISK, CREDENTIAL, MAX_STARS, segment_shape


@pytest.mark.parametrize(
    ("segment", "pattern", "kind"),
    [
        ("42", "*", "numbers"),
        ("7d444840-9dc0-11d1-b245-5ffdce74fad2", "*", "UUIDs"),
        ("2026-03-01", "*", "dates"),
        ("2026-03-01T10:00:00Z", "*", "dates"),
        ("1.2.3", "*", "versions"),
        ("v1.2.3-rc.1", "*", "versions"),
        ("deadbeef01", "*", "hashes"),
        ("aB3dE5gH7j", "*", "identifiers"),
        ("report-2026-03-01.csv", "report-*.csv", "dates"),
        ("left-pad-1.3.0.tgz", "left-pad-*.tgz", "versions"),
        ("issue-17", "issue-*", "numbers"),
    ],
)
def test_an_identifier_has_a_shape(segment: str, pattern: str, kind: str) -> None:
    shape = segment_shape(segment)
    assert shape is not None
    assert (shape.pattern, shape.kind, shape.must) == (pattern, kind, False)


@pytest.mark.parametrize(
    "segment",
    ["user", "v1", "v2", "v1.1", "", "issues", "CamelCaseName", "UPPER_CASE", "oauth2", "a%20b"],
)
def test_a_word_has_none(segment: str) -> None:
    assert segment_shape(segment) is None


@pytest.mark.parametrize(
    "segment", ["ghp_abcdefghijklmnopqrstuvwxyz0123456789", "0123456789abcdef0123456789abcdef01234567"]
)
def test_what_looks_like_a_credential_is_never_written(segment: str) -> None:
    shape = segment_shape(segment)
    assert shape is not None
    assert (shape.pattern, shape.kind, shape.must) == ("*", CREDENTIAL, True)


@pytest.mark.parametrize(("segment", "pattern"), [("*", "*"), ("**", "*"), ("a**b", "a*b")])
def test_an_asterisk_cannot_be_said_literally(segment: str, pattern: str) -> None:
    shape = segment_shape(segment)
    assert shape is not None
    assert (shape.pattern, shape.kind, shape.must) == (pattern, ASTERISK, True)


def test_a_segment_of_very_many_numbers_is_a_word() -> None:
    assert segment_shape("-".join(["a", *"1" * MAX_STARS])) is not None
    assert segment_shape("-".join(["a", *"1" * (MAX_STARS + 1)])) is None
