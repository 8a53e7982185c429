"""The timeout check of long work: a function that the work calls between steps, and that raises to stop it.

A sandbox chooses paths and methods, and with them the amount of work. The work itself reads no clock.
"""

from __future__ import annotations

from collections.abc import Callable

type TimeoutCheck = Callable[[], object]


def no_timeout() -> None:
    """Never stop the work."""
