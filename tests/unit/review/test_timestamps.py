"""Moments: as they stand in lines, and as people type them."""

from __future__ import annotations

import pytest

from egress.review.timestamps import HOUR, InvalidTimeError, format_moment, parse_typed, read_moment

NOW = 1_772_357_400_000_000


def test_reads_the_time_of_a_line() -> None:
    assert read_moment("2026-03-01T09:30:00.000123Z") == NOW + 123


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-03-01",
        "2026-13-01T09:30:00.000123Z",
        "2026-03-01T09:30:00.000123",
        "٢026-03-01T09:30:00.000123Z",
    ],
)
def test_refuses_what_no_line_has(text: str) -> None:
    with pytest.raises(InvalidTimeError):
        read_moment(text)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2h", NOW - 2 * HOUR),
        ("1d", NOW - 24 * HOUR),
        ("2026-03-01", NOW - 19 * HOUR // 2),
        ("2026-03-01T09:30:00Z", NOW),
        ("2026-03-01T10:30:00+01:00", NOW),
        ("2026-03-01 09:30", NOW),
        ("999999w", 0),
    ],
)
def test_reads_what_people_type(text: str, moment: int) -> None:
    assert parse_typed(text, NOW) == moment


@pytest.mark.parametrize("text", ["yesterday", "2", "h", "-1h", "2026-02-30", "\x1b[2J", ""])
def test_says_how_a_moment_is_written(text: str) -> None:
    with pytest.raises(InvalidTimeError) as error:
        parse_typed(text, NOW)
    assert "7d" in error.value.hint


def test_shows_a_moment_and_survives_one_that_no_calendar_has() -> None:
    assert format_moment(NOW) == "2026-03-01T09:30:00Z"
    assert format_moment(2**62) == ""
