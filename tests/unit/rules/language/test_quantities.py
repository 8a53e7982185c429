"""Sizes, rates, durations and moments, at their edges."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from egress.rules.language import quantities
from egress.rules.language.report import MeaningError
from egress.types import Rate


def test_a_size_is_bytes() -> None:
    assert [quantities.parse_size(text) for text in (0, 7, "7", "1 KiB", "3MiB", "2GiB")] == [
        0, 7, 7, 1024, 3 << 20, 2 << 30,
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "KiB", "1kb", "1 MB", "-1", "1.5MiB", "1  MiB", "1MiB ", "٣", "9" * 16])
def test_refuses_what_is_no_size(text: str) -> None:
    with pytest.raises(MeaningError, match="this is not a size"):
        quantities.parse_size(text)


def test_a_rate_bursts_by_its_count() -> None:
    assert quantities.parse_rate("6/minute", None) == Rate(6, 60, 6)
    assert quantities.parse_rate("6/minute", 2) == Rate(6, 60, 2)


@pytest.mark.parametrize(
    "text", ["", "6", "6/day", "/minute", "6/minutes", "-6/minute", "6.5/minute", "٣/minute"]
)
def test_refuses_what_is_no_rate(text: str) -> None:
    with pytest.raises(MeaningError, match="this is not a rate"):
        quantities.parse_rate(text, None)


def test_a_duration_is_seconds() -> None:
    assert quantities.parse_duration(1) == quantities.parse_duration("1s") == 1
    assert [quantities.parse_duration(value) for value in (5, "5s", "5 m", "5h", "5d")] == [
        5,
        5,
        300,
        18000,
        432000,
    ]


@pytest.mark.parametrize("value", [0, -1, "0s", "5", "", "5w", "1h30m"])
def test_refuses_what_is_no_duration(value: int | str) -> None:
    with pytest.raises(MeaningError, match=r"duration"):
        quantities.parse_duration(value)


def test_a_bare_day_begins_at_midnight_and_expires_at_the_next() -> None:
    day = int(datetime(2027, 1, 15, tzinfo=UTC).timestamp())
    assert quantities.parse_moment("2027-01-15") == day
    assert quantities.parse_expiry("2027-01-15") == day + 86400
    assert quantities.parse_expiry("2027-01-15T00:00:00Z") == day
    assert quantities.parse_moment("2027-01-15T01:30:00+01:30") == day


def test_a_space_may_stand_between_day_and_time() -> None:
    for text in ("2027-01-31 18:00:00Z", "2027-01-31t18:00:00z"):
        assert quantities.parse_moment(text) == quantities.parse_moment("2027-01-31T18:00:00Z")


def test_the_ends_of_the_calendar_are_numbers_or_refused() -> None:
    assert quantities.parse_expiry("9999-12-31") == quantities.parse_expiry("9999-12-31T23:59:59Z") + 1
    assert quantities.parse_expiry("0001-01-01") < 0
    for beyond in ("9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00"):
        with pytest.raises(MeaningError, match="there is no such day or moment"):
            quantities.parse_expiry(beyond)


@pytest.mark.parametrize("text", ["", "2027-1-5", "2027-01-15T08:00Z", "2027-01-15T08:00:00", "٢٠٢٧-01-01"])
def test_refuses_what_is_no_moment(text: str) -> None:
    for read in (quantities.parse_moment, quantities.parse_expiry):
        with pytest.raises(MeaningError, match="this is not a day or moment"):
            read(text)


@pytest.mark.parametrize(
    "text", ["2027-02-29", "2027-13-01", "2027-00-00", "2027-01-15T24:00:01Z", "2027-01-15T00:61:00Z"]
)
def test_refuses_a_moment_that_does_not_exist(text: str) -> None:
    for read in (quantities.parse_moment, quantities.parse_expiry):
        with pytest.raises(MeaningError, match="there is no such day or moment"):
            read(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (61, "1m 1s"), (900, "15m"), (90_061, "1d 1h 1m 1s")],
)
def test_durations_are_written_in_units(seconds: int, text: str) -> None:
    assert quantities.duration_text(seconds) == text
