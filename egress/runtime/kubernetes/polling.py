"""Polls the API server at growing intervals."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

_INTERVALS: Final = (0.05, 0.5)
_GROWTH: Final = 1.5


def turns(seconds: float) -> Iterator[None]:
    """Yield at growing intervals, until the time is over."""
    end = time.monotonic() + seconds
    interval, max_interval = _INTERVALS
    while True:
        yield
        if time.monotonic() > end:
            return
        time.sleep(interval)
        interval = min(interval * _GROWTH, max_interval)
