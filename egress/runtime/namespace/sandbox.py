"""A namespace sandbox: its folder and limits, its processes, its door, and its state."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from egress.runtime import tmpfs
from egress.runtime.door.controller import DoorController
from egress.runtime.mounted_files import MountedFiles, folder_errors
from egress.runtime.namespace import cgroups, reaper, sandbox_contents
from egress.runtime.namespace.cgroups import CgroupHierarchy, ControlGroups
from egress.runtime.namespace.launcher_client import LauncherClient
from egress.runtime.namespace.user_mapping import UserMapping
from egress.runtime.owner_lock import write_owner
from egress.runtime.protocol import Provisions
from egress.runtime.proxy_client import Admission
from egress.runtime.spec import Mount, Spec, State

KILLED_STATUS: Final = 137


@dataclass(frozen=True, slots=True)
class SandboxPlacement:
    """The arguments shared by all sandboxes of a runtime."""

    home: Path
    lease: str
    hierarchies: Sequence[CgroupHierarchy]


@dataclass(slots=True)
class NamespaceSandbox:
    """A sandbox."""

    spec: Spec
    provisions: Provisions
    mounted_files: MountedFiles
    door_controller: DoorController
    groups: ControlGroups
    created: datetime
    parts: ExitStack = field(repr=False)
    launcher: LauncherClient = field(init=False, repr=False)
    admission: Admission = field(init=False, repr=False)
    """The first admission: canaries planted in it stay when another proxy admits it."""
    state: State = "created"
    using: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def can_freeze(self) -> bool:
        return self.groups.freezer is not None and self.launcher.can_freeze

    def pause(self, *, is_paused: bool) -> None:
        """Stop its commands, or let them go on. Raises `SandboxDiedError`."""
        if self.can_freeze:
            self.groups.freeze(is_frozen=is_paused)
        else:
            self.launcher.pause_commands(is_paused=is_paused)

    def end(self) -> None:
        """End its processes. Returns when they are gone."""
        self.launcher.stop()
        if self.can_freeze:
            # The group is used again by the next start.
            self.groups.freeze(is_frozen=False)


def _since(folder: Path) -> datetime:
    return datetime.fromtimestamp(folder.stat().st_ctime, UTC)


def make_sandbox(
    spec: Spec,
    placement: SandboxPlacement,
    image: Path | None,
    mounts: tuple[Mount, ...],
    provisions: Provisions,
    ids: UserMapping,
    ended: Callable[[], None],
) -> NamespaceSandbox:
    """Make a sandbox with a connected door and no open port. A failure leaves nothing behind."""
    # Each step registers its own removal, so that a failure at any step removes the earlier ones, last first.
    with ExitStack() as parts:
        folder = placement.home / secrets.token_hex(4)
        with folder_errors(placement.home):
            folder.mkdir(mode=0o700)
            parts.callback(reaper.remove_folder, folder)
            write_owner(folder, placement.lease)
        # Groups before the note, which lists them: a crash in between leaves only empty groups.
        groups = cgroups.make(folder.name, spec.limits, placement.hierarchies)
        parts.callback(groups.remove)
        folders = sandbox_contents.OwnFolders.below(folder)
        with folder_errors(placement.home):
            reaper.write_note(folder, placement.lease, spec.name, groups.folders)
            folders.make(ids.owner)
        hostname = sandbox_contents.hostname(spec.name)
        mounted_files = MountedFiles(folder / "files", sandbox_contents.own_files(spec, image, hostname))
        # Planned out here, with the caller's rights: the launcher only executes the plan.
        layout = sandbox_contents.plan_mounts(spec, image, folders, mounted_files.write(provisions), mounts)
        door_folder = folder / "door"
        door_folder.mkdir()
        controller = parts.enter_context(DoorController(door_folder, sandbox_contents.DOOR_ADDRESS))
        box = NamespaceSandbox(spec, provisions, mounted_files, controller, groups, _since(folder), parts)
        plan = {
            "controller": str(door_folder / "door.sock"),
            "address": sandbox_contents.DOOR_ADDRESS,
            "groups": [str(each) for each in groups.joined],
            "freezer": str(groups.joining or ""),
            "maps": list(ids.maps),
            "sources": [asdict(each) for each in layout.sources],
            "steps": layout.ordered_steps(),
            "hostname": hostname,
            "disks": layout.disks(sandbox_contents.tmpfs_options(spec)),
            "shared": tmpfs.options(spec.limits.temporary_mib, mode=0o1777),
            "user": spec.user,
            "group": spec.group,
            "outer": ids.outer,
            "bounds": cgroups.process_limits(spec.limits, groups.bounded),
        }
        box.launcher = LauncherClient(spec.name, plan, ended)
        parts.callback(box.launcher.close)
        # The door connects before the namespaces are complete; its listener would otherwise wait for a
        # timeout.
        controller.wait(box.launcher.is_alive)
        box.launcher.wait_until_made()
        box.parts = parts.pop_all()
        return box
    raise AssertionError("not reached")
