"""Whether memory stays flat: the steepness of many samples, told apart from their noise. Pure.

The median of all slopes between two samples (Theil and Sen) is taken, so that single peaks do not count. The
first part of a run is left out: caches fill then, and the allocator learns how much it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

MIB: Final = 1024 * 1024
WARM_UP: Final = 1 / 3
"""The part of a run that is left out."""
MIN_SECONDS: Final = 60.0
"""Seconds of what is left that are needed for a judgement."""
MAX_SLOPES: Final = 400
"""Of so many samples at most: each is compared with each other."""
FREE_GROWTH_BYTES: Final = 4 * MIB
"""What memory may grow in the time that is judged, whatever it is;"""
FREE_GROWTH_SHARE: Final = 0.04
"""or this share of what there is."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What was in memory at one moment."""

    seconds: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the samples say."""

    seconds: float
    """That were judged; 0 where there were too few."""
    slope: float
    """Bytes a second."""
    allowed: float
    """Bytes that may have been added in this time."""

    @property
    def grown(self) -> float:
        return self.slope * self.seconds

    @property
    def is_flat(self) -> bool:
        return self.grown <= self.allowed


def judge_memory(samples: Sequence[Sample]) -> Judgement:
    """Judge a run by its samples, in order of time."""
    if not samples:
        return Judgement(0, 0, FREE_GROWTH_BYTES)
    begin, end = samples[0].seconds, samples[-1].seconds
    kept = [each for each in samples if each.seconds >= begin + (end - begin) * WARM_UP]
    lasted = end - kept[0].seconds
    if lasted < MIN_SECONDS or len(kept) < 2:
        return Judgement(0, 0, FREE_GROWTH_BYTES)
    kept = kept[:: len(kept) // MAX_SLOPES + 1]
    slopes = [
        (late.bytes - early.bytes) / (late.seconds - early.seconds)
        for number, early in enumerate(kept)
        for late in kept[number + 1 :]
    ]
    return Judgement(
        lasted,
        median(slopes),
        max(FREE_GROWTH_BYTES, FREE_GROWTH_SHARE * median(each.bytes for each in kept)),
    )
