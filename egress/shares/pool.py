"""Resources of the process, shared out to sandboxes: connections, exchanges, memory. Pure.

Each resource has a capacity, and a most for one sandbox. A sandbox gets at most as much as is still free of
a resource: alone it can take half of everything, a second one half of the rest, and a late one finds some.

A connection has an account for what it takes; closing it gives all back at once, whatever state its owner is
in. Nothing here waits: who gets nothing says so to the client, or holds less.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

KIBIBYTE: Final = 1024
MEBIBYTE: Final = 1024 * 1024
MIN_BUFFER_BYTES: Final = 16 * KIBIBYTE
"""Memory that a connection may always use for bytes on their way."""
MAX_BUFFER_BYTES: Final = 256 * KIBIBYTE
_BUFFERS_OF_SANDBOX: Final = 16 * MEBIBYTE
"""Memory for such bytes in all connections of a sandbox together, less for each where there are many."""
_PARTS: Final = 16


class Resource(IntEnum):
    """What there is only so much of."""

    CLIENTS = 0
    """Client connections: each is a descriptor."""
    UPSTREAMS = 1
    """Upstream connections of the lane that reads: each is a descriptor."""
    EXCHANGES = 2
    """Requests and tunnels under way: each is a slot of the audit."""
    WINDOWS = 3
    """Bytes that HTTP/2 peers of both sides may send before they are passed on. Where little of it is left,
    windows are small."""
    DECODERS = 4
    """Bytes that responses make the proxy keep while they are decoded, or read by rules."""
    HELD_BODIES = 5
    """Bytes of request bodies that wait for a verdict, or for the connection after it."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much there is of a resource, and how much of it one sandbox may have."""

    total: int
    of_sandbox: int


DEFAULT_CAPACITIES: Final = (
    Capacity(8192, 512),
    Capacity(32_768, 2048),
    Capacity(6144, 1536),
    Capacity(160 * MEBIBYTE, 80 * MEBIBYTE),
    Capacity(160 * MEBIBYTE, 80 * MEBIBYTE),
    Capacity(256 * MEBIBYTE, 32 * MEBIBYTE),
)
"""By `Resource`."""


class MemoryAccount(Protocol):
    """An account, as it is used for decoders."""

    def take(self, resource: Resource, amount: int = 1) -> bool: ...

    def give(self, resource: Resource, amount: int = 1) -> None: ...


class OpenAccount:
    """An account that gives whatever is asked for: where nobody shares it."""

    __slots__ = ()

    def take(self, resource: Resource, amount: int = 1) -> bool:
        del resource, amount
        return True

    def give(self, resource: Resource, amount: int = 1) -> None:
        """Take back what nobody counts."""


OPEN_ACCOUNT: Final = OpenAccount()


class SandboxShare:
    """What one sandbox has taken."""

    __slots__ = ("accounts", "used")

    def __init__(self) -> None:
        self.accounts = 0
        self.used = [0] * len(Resource)


class SharePool:
    """The resources of the process, and the share of each sandbox."""

    __slots__ = ("_shares", "capacities", "used")

    def __init__(self, **capacities: Capacity) -> None:
        """Take other capacities than the defaults, by the names of resources in small letters."""
        self.capacities = [
            capacities.get(resource.name.lower(), DEFAULT_CAPACITIES[resource]) for resource in Resource
        ]
        self.used = [0] * len(Resource)
        self._shares: dict[str, SandboxShare] = {}

    @property
    def sandboxes(self) -> frozenset[str]:
        """The sandboxes with an account."""
        return frozenset(self._shares)

    def count(self, sandbox: str, resource: Resource) -> int:
        """Return how much a sandbox has taken."""
        share = self._shares.get(sandbox)
        return 0 if share is None else share.used[resource]

    def buffer_bytes(self, sandbox: str) -> int:
        """Return how much may wait in a buffer of a connection: less where the sandbox has many of them."""
        share = self._shares.get(sandbox)
        accounts = 1 if share is None else share.accounts
        return max(MIN_BUFFER_BYTES, min(MAX_BUFFER_BYTES, _BUFFERS_OF_SANDBOX // accounts))

    def account(self, sandbox: str) -> ShareAccount:
        """Open an account of this sandbox."""
        share = self._shares.get(sandbox)
        if share is None:
            share = self._shares[sandbox] = SandboxShare()
        return ShareAccount(self, sandbox, share)

    def forget(self, sandbox: str) -> None:
        """Drop a sandbox whose last account is closed: names must not pile up."""
        self._shares.pop(sandbox, None)


class ShareAccount:
    """What one connection has taken of the share of its sandbox."""

    __slots__ = ("_is_closed", "_pool", "_sandbox", "_share", "taken")

    def __init__(self, pool: SharePool, sandbox: str, share: SandboxShare) -> None:
        self._pool = pool
        self._sandbox = sandbox
        self._share = share
        self._is_closed = False
        self.taken = [0] * len(Resource)
        share.accounts += 1

    def has(self, resource: Resource, amount: int = 1) -> bool:
        """Tell whether so much is left for this account."""
        pool, capacity = self._pool, self._pool.capacities[resource]
        mine = self._share.used[resource] + amount
        left = capacity.total - pool.used[resource] - amount
        # Of what can only be taken one by one, one may be odd.
        return not self._is_closed and mine <= capacity.of_sandbox and mine <= left + 1

    def take(self, resource: Resource, amount: int = 1) -> bool:
        """Take so much, or nothing; return whether it was left."""
        if not self.has(resource, amount):
            return False
        self._add(resource, amount)
        return True

    def give(self, resource: Resource, amount: int = 1) -> None:
        """Give so much back, at most what was taken: nobody gets what is another's."""
        self._add(resource, -min(amount, self.taken[resource]))

    def take_part(self, resource: Resource, want: int, least: int) -> int:
        """Take what is wanted, or a part of what is left, and never less than `least`; return how much."""
        # A late one gets little, but never nothing: what is given here is what a protocol grants anyway.
        if self._is_closed:
            return least
        left = self._pool.capacities[resource].total - self._pool.used[resource] - self._share.used[resource]
        given = max(min(want, left // _PARTS), least)
        self._add(resource, given)
        return given

    def close(self) -> None:
        """Give everything back, and take no more."""
        if self._is_closed:
            return
        for resource in Resource:
            self._add(resource, -self.taken[resource])
        self._is_closed = True
        self._share.accounts -= 1
        if not self._share.accounts:
            self._pool.forget(self._sandbox)

    def _add(self, resource: Resource, amount: int) -> None:
        self.taken[resource] += amount
        self._share.used[resource] += amount
        self._pool.used[resource] += amount
