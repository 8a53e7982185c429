"""The part of a request body that comes before the head of the request has left. Pure.

Where planted values are searched for, the head of a request waits until a first part of the body has come and
was searched: a value in it is found before anything is sent. The part is bounded in bytes, or in time where
the length of the body is not known. Bytes that come while a connection is made are kept in the same place.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from egress.http1 import Body, Framing
from egress.shares.pool import MemoryAccount, Resource

MAX_SEARCHED_BYTES: Final = 64 * 1024
"""Bytes of a body of known length that are searched before the head leaves. A value further on cuts the
exchange: the part of the request before it has been sent by then."""
MAX_SEARCH_SECONDS: Final = 1.0
"""How long a head waits for the first piece of a body of unknown length. Its client may wait for the answer
before it sends anything."""


_MAX_JOINED_BYTES: Final = 16 * 1024
"""Bytes up to which pieces become one: each takes memory of its own, and may be a single byte."""


@dataclass(slots=True)
class HeldAccount:
    """The memory that the body of one request takes until the upstream has room for it."""

    _account: MemoryAccount
    _taken: int = 0
    _is_lent: bool = False
    _is_closed: bool = False

    def take(self, amount: int) -> bool:
        """Take so much more; return whether it was left."""
        if not self._account.take(Resource.HELD_BODIES, amount):
            return False
        self._taken += amount
        return True

    def give(self, amount: int) -> None:
        """Give so much back, at most what was taken."""
        amount = min(amount, self._taken)
        if amount:
            self._account.give(Resource.HELD_BODIES, amount)
            self._taken -= amount

    def lend(self) -> None:
        """A handler has the body: it stays in memory until the handler has answered."""
        self._is_lent = True

    def end_loan(self) -> None:
        """The handler has answered, whether anybody waits for it or not."""
        self._is_lent = False
        if self._is_closed:
            self.give(self._taken)

    def close(self) -> None:
        """Give back what was taken, now or at the end of the loan."""
        self._is_closed = True
        if not self._is_lent:
            self.give(self._taken)


@dataclass(slots=True)
class HeldBody:
    """Bytes of a body in the order in which they came, and how many of them the head waits for."""

    _pieces: deque[bytearray] = field(default_factory=deque)
    _missing: int = 0
    _has_length: bool = False
    _began: float = 0.0

    @property
    def is_awaited(self) -> bool:
        """The head waits for more of the body."""
        return self._missing > 0

    @property
    def is_empty(self) -> bool:
        """No bytes are kept."""
        return not self._pieces

    def wait(self, framing: Framing, now: float) -> None:
        """Let the head wait for the first part of this body, less what has come of it."""
        self._has_length = framing.body is Body.LENGTH
        wanted = min(framing.length, MAX_SEARCHED_BYTES) if self._has_length else 1
        self._missing = max(0, wanted - sum(map(len, self._pieces)))
        self._began = now

    def keep(self, data: bytes) -> bool:
        """Keep a piece; return whether the head has waited for it, and waits no more."""
        was_awaited = self.is_awaited
        if self._pieces and len(self._pieces[-1]) + len(data) <= _MAX_JOINED_BYTES:
            self._pieces[-1] += data
        else:
            self._pieces.append(bytearray(data))
        self._missing = max(0, self._missing - len(data))
        return was_awaited and not self.is_awaited

    def is_overdue(self, now: float) -> bool:
        """Say whether the head has waited as long as it may. A body of known length is sure to come."""
        return self.is_awaited and not self._has_length and now - self._began >= MAX_SEARCH_SECONDS

    def end_wait(self, now: float) -> float:
        """Let the head wait no longer; return for how long it has waited."""
        self._missing = 0
        return now - self._began if self._began else 0.0

    def whole(self) -> bytes:
        """Return all that was kept, and keep it."""
        return b"".join(self._pieces)

    def take(self) -> list[bytes]:
        """Return the pieces, and keep them no longer."""
        pieces, self._pieces = self._pieces, deque()
        return list(map(bytes, pieces))

    def take_first(self) -> bytes:
        """Return the first piece, and keep it no longer."""
        return bytes(self._pieces.popleft())
