"""How long whoever asked will wait: called between the steps of the work, and raises to give up.

A sandbox chooses paths and methods, and so how much there is to compare. The work itself has no clock.
"""

from __future__ import annotations

from collections.abc import Callable

type TimeoutCheck = Callable[[], object]


def never_timeout() -> None:
    """Waits for as long as it takes."""
