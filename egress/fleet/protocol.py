"""`Sandboxes`: what a fleet can do. One in this process and one in another are used alike.

It is a `Runtime`, so whatever is written against one runs on it. Two promises differ: `create` of a sandbox
that is there already, made in the same way, gives that one; and `close` of a fleet in another process lets go
of it, and leaves its sandboxes to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, override

from egress.fleet.lifetime import NO_TIME_LIMIT, SandboxLifetime
from egress.runtime.protocol import Runtime
from egress.runtime.spec import Info, Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetInfo:
    """What those who use a fleet are told of it."""

    kind: str
    """Of its sandboxes: docker, namespace or fake."""
    why: str = ""
    """Why they are of that kind."""
    cautions: tuple[str, ...] = ()
    """What they are not kept from."""
    audit: Path | None = None
    """Where the requests of its sandboxes are recorded."""
    runtime_dir: Path | None = None
    """Where the sockets of its proxy are."""

    @property
    def line(self) -> str:
        """All of it that a person should know, in one line."""
        not_kept = f"; {'; '.join(self.cautions)}" if self.cautions else ""
        return f"sandboxes of the kind {self.kind} ({self.why}){not_kept}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxStatus:
    """A sandbox, and how long it has."""

    info: Info
    terms: SandboxLifetime = NO_TIME_LIMIT
    left: float | None = None
    """Seconds until its time is over; None where there is no such time."""
    idle: float = 0.0
    """Seconds for which nothing has been done with it."""


@dataclass(frozen=True, slots=True)
class Preview:
    """A port of a sandbox that a browser on this machine can see."""

    sandbox: str
    port: int
    url: str
    """With the token that opens it: not to be shown to others."""


class SandboxFleet(Runtime, Protocol):
    """All sandboxes behind one proxy."""

    @property
    def about(self) -> FleetInfo: ...

    @override
    def create(self, spec: Spec, terms: SandboxLifetime = NO_TIME_LIMIT) -> Info:
        """Make a sandbox, or find the one that was made like that.

        Raises `SandboxDiffersError` where one of this name was made in another way.
        """

    def touch(self, name: str) -> None:
        """Say that it is in use."""

    def status(self, name: str) -> SandboxStatus:
        """How it is, and how long it has."""

    def expose(self, name: str, port: int) -> str:
        """Show a port of it to browsers on this machine; returns the address with its token."""

    def unexpose(self, name: str, port: int) -> None:
        """Show it no longer. Nothing happens where it is not shown."""

    def previews(self) -> tuple[Preview, ...]:
        """What is shown."""
