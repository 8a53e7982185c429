"""The judge of memory: flat is flat however it jitters, and a leak is a leak however slow."""

from __future__ import annotations

import pytest

from tests.faults.seeded_random import SeededRandom
from tests.soak.memory_trend import MIB, MIN_SECONDS, Judgement, Sample, judge_memory


def run(seconds: int, slope: float, noise: float = 0.0, warm_up: float = 0.0) -> Judgement:
    """A run of so long, which grows by so many MiB an hour behind its beginning."""
    chance = SeededRandom("judge", seconds, slope, noise)
    samples = []
    for second in range(seconds):
        grown = slope * second / 3600 + warm_up * min(1.0, second / (seconds / 4))
        samples.append(Sample(second, int((100 + grown + noise * chance.random()) * MIB)))
    return judge_memory(samples)


def test_what_only_jitters_is_flat() -> None:
    assert run(1800, 0, noise=8).is_flat


def test_what_fills_at_the_beginning_is_flat() -> None:
    assert run(1800, 0, noise=5, warm_up=80).is_flat


@pytest.mark.parametrize("slope", [20, 100])
def test_a_leak_is_found_behind_its_noise(slope: float) -> None:
    found = run(1800, slope, noise=10, warm_up=20)
    assert not found.is_flat
    assert found.slope * 3600 / MIB == pytest.approx(slope, rel=0.25)


def test_what_shrinks_is_flat() -> None:
    assert run(1800, -50).is_flat


def test_too_little_is_not_judged() -> None:
    found = run(int(MIN_SECONDS), 1000)
    assert found.seconds == 0
    assert found.is_flat
    assert judge_memory([]).seconds == 0
