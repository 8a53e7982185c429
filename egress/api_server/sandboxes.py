"""Calls about sandboxes: created, listed, stopped, removed, and their ports shown to browsers."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from egress.api.schema import (
    DeleteQuery,
    ExposeSettings,
    FleetView,
    ListQuery,
    PortSettings,
    PreviewsView,
    PreviewView,
    ReadySettings,
    SandboxChanges,
    SandboxesView,
    SandboxSettings,
    SandboxView,
    SnapshotSettings,
    SnapshotsView,
    SnapshotView,
)
from egress.api_server.call import ApiCall, UnfitRequestError
from egress.fleet.api_values import (
    fleet_view,
    lifetime_from,
    preview_view,
    sandbox_view,
    snapshot_view,
    spec_from,
)
from egress.runtime.errors import MountError, SandboxNotFoundError
from egress.runtime.spec import WORKSPACE, Spec
from egress.runtime.stages import note_stage
from egress.sandbox import capabilities, options

if TYPE_CHECKING:
    from egress.api_server.call import BlockingHandler

_PLACEHOLDER_NAME = "ready"
"""The name for prepared sandboxes, which have none yet."""


def _about(call: ApiCall) -> FleetView:
    return fleet_view(call.fleet.about)


def _shut_down(call: ApiCall) -> None:
    call.context.on_shutdown()


def _list(call: ApiCall) -> SandboxesView:
    query: ListQuery = call.query
    labels: dict[str, str] = {}
    for each in query.label:
        name, separator, value = each.partition("=")
        if not separator:
            raise UnfitRequestError("a label has no value", "write label=NAME=VALUE")
        labels[name] = value
    found = []
    for info in call.fleet.list(labels):
        # A sandbox that is removed meanwhile is left out, as it would be a moment later.
        with suppress(SandboxNotFoundError):
            found.append(sandbox_view(call.fleet.status(info.name)))
    return SandboxesView(sandboxes=tuple(found))


def _create(call: ApiCall) -> tuple[int, SandboxView]:
    return HTTPStatus.CREATED, create_sandbox(call, options.random_name(), call.body)


def _ensure(call: ApiCall) -> SandboxView:
    return create_sandbox(call, call.name, call.body)


def create_sandbox(call: ApiCall, name: str, settings: SandboxSettings) -> SandboxView:
    """Create a sandbox, or return the one of this name that has the same settings."""
    note_stage("preparing the image")
    spec = _spec(call, name, settings)
    note_stage("creating the sandbox")
    call.fleet.create(spec, lifetime_from(settings))
    if settings.start:
        note_stage("starting the sandbox")
        call.fleet.start(name)
    return sandbox_view(call.fleet.status(name))


def _spec(call: ApiCall, name: str, settings: SandboxSettings) -> Spec:
    if settings.mounts and not call.context.is_owner_only:
        raise MountError(
            "a client of a port cannot mount folders of this machine", "send files with the calls for files"
        )
    image = settings.image or capabilities.choose_image(call.fleet, None)
    # A path is the root folder of a system on this machine, which the sandbox would see as a whole.
    if image.startswith("/") and image != call.fleet.about.image and not call.context.is_owner_only:
        raise MountError(
            "a client of a port cannot name a folder of this machine as the image",
            "leave the image out, or have its operator choose it with `egress up --image`",
        )
    return usual_spec(name, settings, image)


def usual_spec(name: str, settings: SandboxSettings, image: str) -> Spec:
    """Return the sandbox that these settings make of an image, with the usual user and folder."""
    user, group = options.caller_ids()
    return spec_from(name, settings, Spec(name=name, image=image, user=user, group=group, workdir=WORKSPACE))


def _get(call: ApiCall) -> SandboxView:
    return sandbox_view(call.fleet.status(call.name))


def _change(call: ApiCall) -> SandboxView:
    body: SandboxChanges = call.body
    # What was left out is not among them.
    call.fleet.change_lifetime(call.name, msgspec.to_builtins(body))
    return sandbox_view(call.fleet.status(call.name))


def _start(call: ApiCall) -> SandboxView:
    note_stage("starting the sandbox")
    call.fleet.start(call.name)
    return sandbox_view(call.fleet.status(call.name))


def _delete(call: ApiCall) -> None:
    query: DeleteQuery = call.query
    if query.wait:
        call.fleet.remove(call.name)
    else:
        call.fleet.discard(call.name)


def _stop(call: ApiCall) -> None:
    call.fleet.stop(call.name)


def _sleep(call: ApiCall) -> None:
    call.fleet.sleep(call.name)


def _wake(call: ApiCall) -> None:
    call.fleet.wake(call.name)


def _pause(call: ApiCall) -> None:
    call.fleet.pause(call.name)


def _resume(call: ApiCall) -> None:
    call.fleet.resume(call.name)


def _touch(call: ApiCall) -> None:
    call.fleet.touch(call.name)


def _open_ports(call: ApiCall) -> None:
    body: PortSettings = call.body
    call.fleet.open_ports(call.name, body.ports)


def _keep_ready(call: ApiCall) -> None:
    body: ReadySettings = call.body
    call.fleet.prepare(_spec(call, _PLACEHOLDER_NAME, body.settings), body.count)


def _previews(call: ApiCall) -> PreviewsView:
    found = call.fleet.previews()
    return PreviewsView(previews=tuple(preview_view(each) for each in found))


def _expose(call: ApiCall) -> PreviewView:
    body: ExposeSettings = call.body
    return preview_view(call.fleet.expose(call.name, call.port, body.expires))


def _unexpose(call: ApiCall) -> None:
    call.fleet.unexpose(call.name, call.port)


def _snapshots(call: ApiCall) -> SnapshotsView:
    return SnapshotsView(snapshots=tuple(snapshot_view(each) for each in call.fleet.snapshots()))


def _snapshot(call: ApiCall) -> SnapshotView:
    body: SnapshotSettings = call.body
    return snapshot_view(call.fleet.snapshot(body.sandbox, call.name, body.kind))


def _delete_snapshot(call: ApiCall) -> None:
    call.fleet.delete_snapshot(call.name)


SANDBOX_CALLS: dict[str, BlockingHandler] = {
    "about": _about,
    "shut_down": _shut_down,
    "list_sandboxes": _list,
    "create_sandbox": _create,
    "ensure_sandbox": _ensure,
    "get_sandbox": _get,
    "change_sandbox": _change,
    "delete_sandbox": _delete,
    "start_sandbox": _start,
    "stop_sandbox": _stop,
    "sleep_sandbox": _sleep,
    "wake_sandbox": _wake,
    "pause_sandbox": _pause,
    "resume_sandbox": _resume,
    "touch_sandbox": _touch,
    "open_ports": _open_ports,
    "keep_ready": _keep_ready,
    "list_previews": _previews,
    "expose": _expose,
    "unexpose": _unexpose,
    "list_snapshots": _snapshots,
    "create_snapshot": _snapshot,
    "delete_snapshot": _delete_snapshot,
}
"""Handlers by the names of their operations."""
