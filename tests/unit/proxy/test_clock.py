"""The clock of the machine."""

from __future__ import annotations

import time_machine

from egress.proxy.clock import SystemClock


def test_tells_the_time_in_seconds_and_in_nanoseconds() -> None:
    with time_machine.travel(1_800_000_000.75, tick=False):
        clock = SystemClock()
        assert clock.now() == 1_800_000_000
        assert clock.now_ns() // 1_000_000 == 1_800_000_000_750


def test_what_measures_durations_never_goes_back() -> None:
    clock = SystemClock()
    times = [clock.monotonic() for _ in range(1000)]
    assert times == sorted(times)
