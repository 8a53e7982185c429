"""The interfaces of the ingress: the lanes behind it, and the parts of the engine that it uses.

The engine also holds resolvers, authorities and dialers. These protocols keep them out of the ingress.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from egress.audit.reported_facts import RefusalFacts
from egress.proxy.clock import Clock
from egress.proxy.lanes.connection import AdmittedConnection, DeniedConnection
from egress.rules.decide.policy import Policy
from egress.shares.pool import SharePool
from egress.shares.turns import Turns
from egress.types import HostDecision, Identity, Limit

Carry = Callable[
    [AdmittedConnection, asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[bytes | None]
]
"""A lane: it carries the connection to its end, or returns what its client says to another destination. The
bytes that it is given are those read from the client already."""


class ExplainingLane(Protocol):
    """The lane that tells TLS clients why a host is denied."""

    def can_explain(self, sandbox: str, host: str, decision: HostDecision) -> bool:
        """Tell whether a client of this host can be shown a certificate that it trusts."""
        ...

    async def carry(
        self,
        denied: DeniedConnection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ahead: bytes,
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Lanes:
    """The ways behind the door."""

    tunnel: Carry
    """Bytes only, for hosts that are not intercepted."""
    full: Carry
    """Everything is read."""
    denial: ExplainingLane | None = None
    """Nothing is served but the reason of a denial; None refuses denied hosts at the door."""


class KnownSandbox(Protocol):
    """A sandbox that exists."""

    @property
    def identity(self) -> Identity: ...


class ConnectionCounts(Protocol):
    """The open connections that limits of the rules count."""

    def acquire(self, sandbox: str, bounds: tuple[Limit, ...]) -> bool: ...

    def release(self, sandbox: str, bounds: tuple[Limit, ...]) -> None: ...


class RefusalAudit(Protocol):
    """The log, as refusals are recorded in it."""

    def may_work(self, sandbox: str) -> bool: ...

    def refusal(self, refusal: RefusalFacts) -> None: ...


class IngressEngine(Protocol):
    """The engine, as far as the door knows it."""

    @property
    def clock(self) -> Clock: ...
    @property
    def policy(self) -> Policy: ...
    @property
    def counts(self) -> ConnectionCounts: ...
    @property
    def audit(self) -> RefusalAudit: ...
    @property
    def sandboxes(self) -> Mapping[str, KnownSandbox]: ...
    @property
    def stopping(self) -> bool: ...
    @property
    def new_id(self) -> Callable[[], str]: ...
    @property
    def turns(self) -> Turns: ...
    @property
    def pool(self) -> SharePool: ...

    def canary_denial(self, sandbox: str, *names: str) -> HostDecision | None: ...
