"""Chance that comes out the same each time: a fault that was found once is found again.

It must not be used for anything that somebody should not guess.
"""

from __future__ import annotations

import random  # noqa: TID251 - the one place; seeded, always
from collections.abc import Sequence


class SeededRandom(random.Random):
    """Numbers that follow from a seed."""

    def __init__(self, *seed: object) -> None:
        super().__init__("/".join(str(each) for each in seed))

    def places(self, length: int, count: int) -> list[int]:
        """So many offsets of that many bytes, in order; the ends among them."""
        inner = self.sample(range(1, length), min(count, length - 1)) if length > 1 else []
        return sorted({0, *inner, length})

    def one_of[Item](self, items: Sequence[Item]) -> Item:
        return items[self.randrange(len(items))]
