"""`SandboxFleet`: the interface of a fleet, in this process or in another one.

A fleet is a `Runtime`, so code for a runtime runs on it. Two promises differ: `create` returns an existing
sandbox that was made in the same way, and `close` of a fleet in another process only disconnects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol, override

from egress.fleet.lifetime import NO_TIME_LIMIT, SandboxLifetime
from egress.fleet.process_interface import ProcessTracker
from egress.fleet.session_interface import SessionTracker
from egress.runtime.protocol import Runtime
from egress.runtime.spec import Info, Spec

if TYPE_CHECKING:
    from egress.fleet.policies import FleetPolicies


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetInfo:
    """Facts about a fleet, for its users."""

    kind: str
    """The kind of its sandboxes: docker, namespace or fake."""
    why: str = ""
    """The reason for that kind."""
    cautions: tuple[str, ...] = ()
    """Gaps in the isolation of its sandboxes."""
    audit: Path | None = None
    """The folder of the audit log."""
    run: str = ""
    """The id of this run in the audit log; empty if it is not known."""
    runtime_dir: Path | None = None
    """The folder of the proxy's sockets."""
    engine: Path | None = None
    """The socket of the engine; None without one."""
    image: str = ""
    """The image of a sandbox that names none; empty if each caller looks for it."""

    @property
    def line(self) -> str:
        """The facts that a person should know, in one line."""
        warnings = f". Warning: {'; '.join(self.cautions)}" if self.cautions else ""
        return f"runtime: {self.kind} ({self.why}){warnings}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxStatus:
    """A sandbox, and its remaining time."""

    info: Info
    terms: SandboxLifetime = NO_TIME_LIMIT
    left: float | None = None
    """Seconds until its timeout; None without one."""
    idle: float = 0.0
    """Seconds since its last use."""


TOKEN_PARAMETER: Final = "token"
"""The part of a query that holds the token of a preview."""


@dataclass(frozen=True, slots=True)
class Preview:
    """A port of a sandbox that browsers can open, and other clients with the token."""

    sandbox: str
    port: int
    origin: str
    """Its address without the token, such as `http://8000-web-k3f7q2mxta.localhost:41233`."""
    token: str = field(repr=False)
    """Whoever has it uses the port. It goes into the header `egress-preview-token`, or into the query."""
    left: float | None = None
    """Seconds until it ends; None without a time."""

    @property
    def url(self) -> str:
        """The address with the token, for a browser: keep it private."""
        return f"{self.origin}/?{TOKEN_PARAMETER}={self.token}"


SnapshotKind = Literal["workspace", "image"]
"""`image` is the workspace and the whole file system of a container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The files of a sandbox, kept under a name."""

    name: str
    kind: SnapshotKind
    sandbox: str
    """The sandbox that it was taken of."""
    image: str
    """The image of that sandbox."""
    created: datetime
    size: int
    """Bytes on this machine, those of the image included."""
    digest: str
    """The SHA-256 of the archive of the workspace."""
    owner: str = ""
    """The owner of that sandbox. Sandboxes of another owner do not begin with it."""
    saved_image: str = ""
    """The image with the rest of the file system; empty for a workspace alone."""
    user: int = 0
    group: int = 0
    """The ids that own the files of the image."""


class SandboxFleet(Runtime, Protocol):
    """The sandboxes behind one proxy."""

    @property
    def about(self) -> FleetInfo: ...

    @property
    def tracked(self) -> ProcessTracker:
        """The processes that are found by their ids."""

    @property
    def policies(self) -> FleetPolicies:
        """The rules of single sandboxes."""

    @property
    def sessions(self) -> SessionTracker:
        """The sessions that are found by their ids."""

    @override
    def create(self, spec: Spec, terms: SandboxLifetime = NO_TIME_LIMIT) -> Info:
        """Create a sandbox, or return the one that was created with the same settings.

        Raises `SandboxDiffersError` if a sandbox of this name has other settings.
        """

    def discard(self, name: str) -> None:
        """Remove a sandbox, and do not wait for it: from now on it is as good as gone."""

    def sleep(self, name: str) -> None:
        """Stop a running sandbox until its next use. Its files stay, its processes end."""

    def wake(self, name: str) -> None:
        """Start a sandbox that is asleep. Does nothing for any other."""

    def touch(self, name: str) -> None:
        """Record a use of the sandbox."""

    def change_lifetime(self, name: str, changes: Mapping[str, float | None]) -> None:
        """Change `timeout`, which counts from now, or `idle_timeout`; None removes a limit."""

    def status(self, name: str) -> SandboxStatus:
        """The state of a sandbox, and its remaining time."""

    def expose(self, name: str, port: int, expires: float | None = None) -> Preview:
        """Expose a port, for so many seconds if they are given. A port that is exposed keeps its address.

        `expires` replaces the time that a preview has left; without it that stays as it is.
        """

    def unexpose(self, name: str, port: int) -> None:
        """Withdraw a port. Does nothing if the port is not exposed."""

    def previews(self) -> tuple[Preview, ...]:
        """The exposed ports."""

    # Snapshots

    def snapshot(self, name: str, snapshot: str, kind: SnapshotKind = "workspace") -> Snapshot:
        """Keep the files of a sandbox under a name. Wakes it, if it is asleep.

        Raises `SnapshotExistsError`, `SnapshotQuotaError`, and `UnsupportedError` for a kind that this
        runtime does not have.
        """

    def snapshots(self) -> tuple[Snapshot, ...]:
        """The snapshots of this user, by name."""

    def delete_snapshot(self, snapshot: str) -> None:
        """Delete a snapshot. Raises `SnapshotNotFoundError`."""
