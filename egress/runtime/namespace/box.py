"""One sandbox, whole: its folder and bounds, its namespaces, the keeper of its door, and its state."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from egress.runtime import disk
from egress.runtime.door.keeper import Keeper
from egress.runtime.gateway import Admission
from egress.runtime.laid import Laid, usable
from egress.runtime.lease import write_owner
from egress.runtime.namespace import bounds, plan, sweep
from egress.runtime.namespace.bounds import Groups, Hierarchy
from egress.runtime.namespace.ids import Ids
from egress.runtime.namespace.space import Space
from egress.runtime.protocol import Outfit
from egress.runtime.spec import Mount, Spec, State

KILLED: Final = 137


@dataclass(frozen=True, slots=True)
class Place:
    """Where and as what sandboxes are made."""

    home: Path
    lease: str
    hierarchies: Sequence[Hierarchy]


@dataclass(slots=True)
class Box:
    """One sandbox."""

    spec: Spec
    outfit: Outfit
    laid: Laid
    keeper: Keeper
    groups: Groups
    created: datetime
    parts: ExitStack = field(repr=False)
    space: Space = field(init=False, repr=False)
    admission: Admission = field(init=False, repr=False)
    """The one it was made by: what is planted in it stays when another proxy admits it."""
    state: State = "created"
    using: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def freezes(self) -> bool:
        return self.groups.freezer is not None and self.space.can_freeze

    def pause(self, *, is_paused: bool) -> None:
        """Stop its commands, or let them go on. Raises `SandboxDiedError`."""
        if self.freezes:
            self.groups.freeze(is_frozen=is_paused)
        else:
            self.space.hold(is_paused=is_paused)

    def end(self) -> None:
        """End its processes. Returns when they are gone."""
        self.space.stop()
        if self.freezes:
            # The group is used again by the next start.
            self.groups.freeze(is_frozen=False)


def _since(folder: Path) -> datetime:
    return datetime.fromtimestamp(folder.stat().st_ctime, UTC)


def made(
    spec: Spec,
    place: Place,
    image: Path | None,
    mounts: tuple[Mount, ...],
    outfit: Outfit,
    ids: Ids,
    ended: Callable[[], None],
) -> Box:
    """Make one, with its door there and nothing open yet. Where that fails nothing is left of it."""
    with ExitStack() as parts:
        folder = place.home / secrets.token_hex(4)
        with usable(place.home):
            folder.mkdir(mode=0o700)
            parts.callback(sweep.remove, folder)
            write_owner(folder, place.lease)
        groups = bounds.make(folder.name, spec.limits, place.hierarchies)
        parts.callback(groups.remove)
        folders = plan.Folders.below(folder)
        with usable(place.home):
            sweep.note(folder, place.lease, spec.name, groups.folders)
            folders.make(ids.owner)
        hostname = plan.hostname(spec.name)
        laid = Laid(folder / "files", plan.own_files(spec, image, hostname))
        layout = plan.file_system(spec, image, folders, laid.lay(outfit), mounts)
        meeting = folder / "door"
        meeting.mkdir()
        keeper = parts.enter_context(Keeper(meeting, plan.DOOR))
        box = Box(spec, outfit, laid, keeper, groups, _since(folder), parts)
        wanted = {
            "keeper": str(meeting / "door.sock"),
            "address": plan.DOOR,
            "groups": [str(each) for each in groups.joined],
            "freezer": str(groups.joining or ""),
            "maps": list(ids.maps),
            "sources": [asdict(each) for each in layout.sources],
            "steps": layout.finished(),
            "hostname": hostname,
            "disks": layout.disks(plan.disks(spec)),
            "shared": disk.options(spec.limits.temporary_mib, mode=0o1777),
            "user": spec.user,
            "group": spec.group,
            "outer": ids.outer,
            "bounds": bounds.of_each(spec.limits, groups.bounded),
        }
        box.space = Space(spec.name, wanted, ended)
        parts.callback(box.space.close)
        keeper.wait(box.space.is_alive)
        box.space.until_made()
        box.parts = parts.pop_all()
        return box
    raise AssertionError("not reached")
