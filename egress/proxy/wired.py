"""What the door is wired to: the lanes behind it, and the engine as far as it needs one.

The engine also holds resolvers, authorities and dialers, with which the door has no business. Naming
only this much keeps it so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from egress.audit.values import Refusal
from egress.proxy.arrival import Arrival
from egress.proxy.clock import Clock
from egress.rules.policy import Policy
from egress.types import HostDecision, Identity, Limit

Carry = Callable[[Arrival, asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[None]]
"""A lane: it carries the connection to its end. The bytes are those read from the client already."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """The ways behind the door."""

    tunnel: Carry
    """Bytes only, for hosts that are not intercepted."""
    full: Carry
    """Everything is read."""


class Known(Protocol):
    """A sandbox that exists."""

    @property
    def identity(self) -> Identity: ...


class Counts(Protocol):
    """The open connections that limits of the rules count."""

    def acquire(self, sandbox: str, bounds: tuple[Limit, ...]) -> bool: ...

    def release(self, sandbox: str, bounds: tuple[Limit, ...]) -> None: ...


class Audit(Protocol):
    """Where refusals are recorded."""

    def may_work(self, sandbox: str) -> bool: ...

    def refusal(self, refusal: Refusal) -> None: ...


class Wired(Protocol):
    """The engine, as far as the door knows it."""

    @property
    def clock(self) -> Clock: ...
    @property
    def policy(self) -> Policy: ...
    @property
    def counts(self) -> Counts: ...
    @property
    def audit(self) -> Audit: ...
    @property
    def sandboxes(self) -> Mapping[str, Known]: ...
    @property
    def stopping(self) -> bool: ...
    @property
    def new_id(self) -> Callable[[], str]: ...

    def caught(self, sandbox: str, *names: str) -> HostDecision | None: ...
