"""The rate of each sandbox: a flood is bounded, and takes nothing from its neighbour."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.telemetry.sandbox_rates import BURST_SECONDS, MAX_TRACKED_SANDBOXES, SandboxRates


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_a_flood_gets_its_rate_and_a_neighbour_its_own() -> None:
    clock = Clock()
    rates = SandboxRates(10, clock.monotonic)
    assert sum(rates.take("flood") for _ in range(1000)) == 10 * BURST_SECONDS
    assert rates.take("quiet")
    clock.now += 1
    assert sum(rates.take("flood") for _ in range(1000)) == 10


@given(st.lists(st.floats(0, 5), max_size=200), st.integers(1, 50))
def test_no_order_of_calls_gets_more_than_the_rate_and_its_burst(waits: list[float], rate: int) -> None:
    clock = Clock()
    rates = SandboxRates(rate, clock.monotonic)
    taken = 0
    for wait in waits:
        clock.now += wait
        taken += rates.take("a")
    assert taken <= rate * (sum(waits) + BURST_SECONDS) + 1


def test_sandboxes_that_come_and_go_take_no_memory() -> None:
    clock = Clock()
    rates = SandboxRates(10, clock.monotonic)
    for number in range(3 * MAX_TRACKED_SANDBOXES):
        rates.take(f"sandbox-{number}")
        clock.now += 0.01
    assert len(rates._left) <= MAX_TRACKED_SANDBOXES


def test_a_flood_of_sandboxes_looks_through_all_of_them_once_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each look takes as long as there are sandboxes, and they all wait for it."""
    looks: list[float] = []
    monkeypatch.setattr(SandboxRates, "_forget_full", lambda _self, now: looks.append(now))
    clock = Clock()
    rates = SandboxRates(1, clock.monotonic)
    for number in range(MAX_TRACKED_SANDBOXES + 3000):
        rates.take(f"sandbox-{number}")
        clock.now += 0.001
    assert len(looks) == 3


def test_more_at_once_than_can_be_tracked_are_let_through_and_take_no_memory_either() -> None:
    """The queue behind bounds them all together."""
    rates = SandboxRates(1, Clock().monotonic)
    assert all(rates.take(f"sandbox-{number}") for number in range(MAX_TRACKED_SANDBOXES + 100))
    assert len(rates._left) == MAX_TRACKED_SANDBOXES
