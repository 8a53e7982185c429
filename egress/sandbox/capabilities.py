"""Features beyond a `Runtime`: what needs a fleet, and the default image.

A feature that a runtime lacks raises an error with the cure; it is never skipped silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from egress.fleet.lifetime import NO_TIME_LIMIT, SandboxLifetime
from egress.fleet.process_interface import ProcessTracker
from egress.fleet.protocol import FleetInfo, Preview, Snapshot, SnapshotKind
from egress.fleet.session_interface import SessionTracker
from egress.runtime.docker.engine_socket import ENGINE_SOCKET
from egress.runtime.errors import SpecError, UnsupportedError
from egress.runtime.protocol import Runtime
from egress.runtime.spec import Info, Spec
from egress.runtime.stages import note_stage

if TYPE_CHECKING:
    from egress.fleet.policies import FleetPolicies

HOST_IMAGE: Final = "host"
"""The image of a namespace sandbox: this machine's own programs."""


@runtime_checkable
class FleetRuntime(Protocol):
    """The part of a fleet that the API uses."""

    @property
    def about(self) -> FleetInfo: ...

    @property
    def tracked(self) -> ProcessTracker: ...

    @property
    def policies(self) -> FleetPolicies: ...

    @property
    def sessions(self) -> SessionTracker: ...

    def create(self, spec: Spec, terms: SandboxLifetime = NO_TIME_LIMIT) -> Info: ...

    def change_lifetime(self, name: str, changes: Mapping[str, float | None]) -> None: ...

    def sleep(self, name: str) -> None: ...

    def wake(self, name: str) -> None: ...

    def expose(self, name: str, port: int, expires: float | None = None) -> Preview: ...

    def unexpose(self, name: str, port: int) -> None: ...

    def previews(self) -> tuple[Preview, ...]: ...

    def snapshot(self, name: str, snapshot: str, kind: SnapshotKind = "workspace") -> Snapshot: ...

    def snapshots(self) -> tuple[Snapshot, ...]: ...

    def delete_snapshot(self, snapshot: str) -> None: ...


def create_sandbox(runtime: Runtime, spec: Spec, terms: SandboxLifetime) -> Info:
    """Create a sandbox with a lifetime. Raises `UnsupportedError` if only a fleet could end it."""
    if isinstance(runtime, FleetRuntime):
        return runtime.create(spec, terms)
    if terms != NO_TIME_LIMIT:
        raise _no_fleet_error("end sandboxes after a timeout")
    return runtime.create(spec)


def require_fleet(runtime: Runtime, what: str) -> FleetRuntime:
    """Return the runtime as a fleet. Raises `UnsupportedError` for a runtime alone: it cannot do `what`."""
    if isinstance(runtime, FleetRuntime):
        return runtime
    raise _no_fleet_error(what)


def choose_image(runtime: Runtime, image: str | None, snapshot: str = "") -> str:
    """Return the requested image, that of the snapshot, or the default of the runtime.

    Raises `SpecError` without a default.
    """
    if image is None and snapshot:
        image = find_saved_image(require_fleet(runtime, "keep snapshots"), snapshot)
    if image is not None:
        return image
    about = runtime.about if isinstance(runtime, FleetRuntime) else FleetInfo(kind="")
    if about.kind == "namespace":
        return HOST_IMAGE
    if about.kind == "docker":
        return about.image or _demo_image(about.engine or ENGINE_SOCKET)
    raise SpecError("image is missing", "name one: image=...")


def find_saved_image(fleet: FleetRuntime, snapshot: str) -> str | None:
    """Return the image of a snapshot; None for a workspace alone, and for one that is not there."""
    found = (each.saved_image for each in fleet.snapshots() if each.name == snapshot)
    return next(found, "") or None


def _demo_image(socket: Path) -> str:
    from egress.runtime.docker.engine import DockerEngine  # noqa: PLC0415 - only where it is needed
    from egress.runtime.docker.images.demo import demo_image  # noqa: PLC0415 - likewise

    # A connection of its own, closed again: the runtime may live in another process.
    engine = DockerEngine(socket)
    try:
        return demo_image(engine, note_stage)
    finally:
        engine.close()


def _no_fleet_error(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"a runtime alone cannot {what}", "wrap it in a fleet: egress.fleet.Fleet(runtime)"
    )
