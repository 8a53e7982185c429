"""How many connections are open, over all and by sandbox.

Counting only: it never closes anything. What the rules say about connections to one host is counted
elsewhere; this protects the process itself, before anybody knows where a connection wants to go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Occupancy:
    """Places in the house: so many in all, and so many for one sandbox."""

    __slots__ = ("_by_sandbox", "_most", "_most_of_sandbox", "_total")

    def __init__(self, most: int, most_of_sandbox: int) -> None:
        self._most = most
        self._most_of_sandbox = most_of_sandbox
        self._total = 0
        self._by_sandbox: Counter[str] = Counter()

    def of(self, sandbox: str) -> int:
        """The open connections of one sandbox."""
        return self._by_sandbox[sandbox]

    @contextmanager
    def place(self, sandbox: str) -> Iterator[bool]:
        """Take a place until the block ends; yields False, and takes none, where there is no room."""
        if self._total >= self._most or self._by_sandbox[sandbox] >= self._most_of_sandbox:
            yield False
            return
        self._total += 1
        self._by_sandbox[sandbox] += 1
        try:
            yield True
        finally:
            self._total -= 1
            self._by_sandbox[sandbox] -= 1
            if not self._by_sandbox[sandbox]:
                # Sandboxes come and go; their names must not pile up.
                del self._by_sandbox[sandbox]
