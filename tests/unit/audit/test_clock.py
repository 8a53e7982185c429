"""The time as it stands in a line."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.audit.clock import format_timestamp
from egress.audit.writer import TimestampFormatter
from tests.unit.audit.sample import Clock


def test_a_stamp_is_rfc_3339_in_utc_with_microseconds() -> None:
    assert TimestampFormatter(Clock()).now() == "2026-03-01T09:30:00.000123Z"


@given(st.integers(0, 253_402_300_799), st.integers(0, 999_999))
def test_it_is_the_time_that_a_calendar_gives(second: int, micro: int) -> None:
    moment = datetime.fromtimestamp(second, UTC).replace(microsecond=micro)
    ns = second * 10**9 + micro * 1000
    found = TimestampFormatter(Clock()).at(ns)
    assert found == format_timestamp(ns)
    assert found == moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


@pytest.mark.parametrize("ns", [-1, -(10**18), 2**63 - 1, 2**64])
def test_a_clock_that_is_far_off_stops_nothing(ns: int) -> None:
    assert TimestampFormatter(Clock(ns)).now().endswith("Z")


def test_the_second_is_not_kept_when_the_clock_is_put_back() -> None:
    clock = Clock()
    stamps = TimestampFormatter(clock)
    first = stamps.now()
    clock.ns += 3600 * 10**9
    assert stamps.now().startswith("2026-03-01T10:30:00")
    clock.ns -= 3600 * 10**9
    assert stamps.now() == first
