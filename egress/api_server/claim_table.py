"""The claims of one server with their latest changes, for lists and watches.

Versions rise with each change, and begin with the time, so that a version of an earlier run is an old one.
A watch that begins with a version whose changes are no longer known is told so, and begins anew. Only the
loop of the server uses a table, so no change comes between two steps of its callers.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from egress.api_server.claim_schema import Claim, ClaimEvent, EventType

KEPT_CHANGES: Final = 512

type ClaimKey = tuple[str, str]
"""Namespace and name."""


class VersionGoneError(Exception):
    """The changes since a version are not known, or there is no such version."""


@dataclass(frozen=True, slots=True)
class _Change:
    version: int
    event: ClaimEvent


def _clock() -> float:
    return time.time()  # noqa: TID251 - versions rise from one run of the server to the next


def key_of(claim: Claim) -> ClaimKey:
    """Return the place of a claim in the table."""
    return claim.metadata.namespace, claim.metadata.name


class ClaimTable:
    """Claims by namespace and name."""

    def __init__(self, clock: Callable[[], float] = _clock) -> None:
        self.version = int(clock() * 1000)
        self._oldest = self.version
        self._claims: dict[ClaimKey, Claim] = {}
        self._changes: deque[_Change] = deque()
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._claims)

    def find(self, key: ClaimKey) -> Claim | None:
        return self._claims.get(key)

    def all(self) -> tuple[Claim, ...]:
        """The claims, by namespace and name."""
        return tuple(self._claims[key] for key in sorted(self._claims))

    def put(self, claim: Claim) -> Claim:
        """Add a claim or change it, and return it with its version."""
        is_new = key_of(claim) not in self._claims
        made = self._record("ADDED" if is_new else "MODIFIED", claim)
        self._claims[key_of(claim)] = made
        return made

    def drop(self, key: ClaimKey) -> None:
        """Forget a claim. Does nothing for one that is not there."""
        claim = self._claims.pop(key, None)
        if claim is not None:
            self._record("DELETED", claim)

    def since(self, version: int) -> Iterator[ClaimEvent]:
        """Return the changes after a version. Raises `VersionGoneError`."""
        if not self._oldest <= version <= self.version:
            raise VersionGoneError
        # A list, since the table may change while its reader waits.
        return iter([change.event for change in self._changes if change.version > version])

    async def wait(self, seconds: float) -> None:
        """Return with the next change, or after so many seconds."""
        news = self._news
        try:
            await asyncio.wait_for(news.wait(), seconds)
        except TimeoutError:
            return

    def _record(self, kind: EventType, claim: Claim) -> Claim:
        self.version += 1
        made = replace(claim, metadata=replace(claim.metadata, resource_version=str(self.version)))
        self._changes.append(_Change(self.version, ClaimEvent(kind, made)))
        while len(self._changes) > KEPT_CHANGES:
            self._oldest = self._changes.popleft().version
        # Whoever waits has this one; whoever comes later gets the next.
        self._news.set()
        self._news = asyncio.Event()
        return made
