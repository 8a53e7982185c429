"""Counts wrong tokens, so that nobody can try many of them, and holds up nobody who has the right one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MAX_WRONG_TOKENS: Final = 10
"""Wrong tokens that are answered in a second; further ones are told to wait."""


class WrongTokenBucket:
    """Counts the wrong tokens in one place: so many in a second, whoever sends them."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._left = float(MAX_WRONG_TOKENS)
        self._counted = monotonic()

    def take(self) -> bool:
        """Count a wrong token; False if there were too many."""
        now = self._monotonic()
        self._left = min(MAX_WRONG_TOKENS, self._left + (now - self._counted) * MAX_WRONG_TOKENS)
        self._counted = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
