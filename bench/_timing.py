"""How long a job takes: the best of several rounds, since a shared machine only ever adds to it.

The collector of garbage stays on, as it is in the product.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable


def seconds(job: Callable[[], object], times: int = 1, rounds: int = 9) -> float:
    """One call of `job`, in seconds: the best of `rounds`, each of which makes `times` calls."""
    timer = timeit.Timer(job, "import gc; gc.enable()")
    return min(timer.repeat(rounds, times)) / times


def microseconds(job: Callable[[], object], times: int = 5000) -> float:
    """The same in microseconds."""
    return seconds(job, times) * 1e6
