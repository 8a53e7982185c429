"""Unassigned containers: each runs in its own cell, and belongs to no sandbox yet.

Every sandbox starts as one, made ahead or not. Name, files and variables come with the assignment; until then
only the waiting first process runs in it. An unassigned container that is not taken is discarded; a used one
is never assigned again.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from egress.ca import Authority
from egress.runtime import mount_check, passwd_files
from egress.runtime.docker import container, death_pipe, labels, names
from egress.runtime.docker.background_task import BackgroundTask
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.isolation import Isolation
from egress.runtime.docker.network_cell import NetworkCell, NetworkCellPool
from egress.runtime.docker.sandbox_user import OwnUsers, is_own, runs_as_root
from egress.runtime.docker.volume_ownership import give_to_user
from egress.runtime.door.controller import default_ports
from egress.runtime.errors import SandboxError
from egress.runtime.mounted_files import MountedFiles
from egress.runtime.proc_scripts import SUPERVISOR_PATH, SUPERVISOR_SCRIPT
from egress.runtime.protocol import Provisions
from egress.runtime.proxy_client import Admission
from egress.runtime.spec import Mount, Spec


@dataclass(slots=True)
class UnassignedContainer:
    """A container that is ready for a sandbox."""

    spec: Spec
    """The spec that it was made for, with the user of this container; name, profile, env and labels are
    placeholders."""
    image: str
    """The image's id."""
    cell: NetworkCell
    container: str
    provisions: Provisions
    """The provisions that lie in it now."""
    mounted_files: MountedFiles
    parts: ExitStack = field(repr=False)

    def fits(self, provisions: Provisions) -> bool:
        """Return whether these provisions can replace the present ones: mounts cannot change."""
        return (
            self.provisions.folder == provisions.folder
            and self.provisions.overmounts == provisions.overmounts
        )

    def leave(self) -> None:
        """Let go of the container, which goes on without a network."""
        self.cell.leave()
        self.parts.pop_all()

    def close(self) -> None:
        """Remove the container, its cell and its volumes."""
        self.parts.close()


def mount_placeholders(provisions: Provisions) -> Provisions:
    """Empty files in place of the overmounted ones: mounts are fixed before the provisions are known."""
    sources = set(provisions.overmounts.values())
    return Provisions(
        folder=provisions.folder, files=dict.fromkeys(sources, b""), overmounts=provisions.overmounts
    )


class UnassignedContainerFactory:
    """Makes unassigned containers."""

    def __init__(
        self,
        engine: DockerEngine,
        cells: NetworkCellPool,
        lease: str,
        guarded: Iterable[Path],
        isolation: Isolation,
        *,
        keeps: bool = False,
    ) -> None:
        """`keeps`: containers may outlive this runtime."""
        self._keeps = keeps
        self._engine = engine
        self._cells = cells
        self._lease = lease
        self._guarded = tuple(guarded)
        self._isolation = isolation
        self._users = OwnUsers(engine.image_origin, engine.maps_users, is_root=runs_as_root())

    def mounts(self, spec: Spec) -> tuple[Mount, ...]:
        """The mounts with resolved sources. Raises `MountError`."""
        return mount_check.check_mounts(spec.mounts, self._guarded, container.RESERVED_PATHS)

    def make(
        self, spec: Spec, image: str, provision: Callable[[NetworkCell], Provisions]
    ) -> UnassignedContainer:
        """Make a container, and its door meanwhile. A failure leaves nothing behind."""
        resolved = self.mounts(spec)
        # Before the cell is taken: its network may still be being made.
        spec = self._users.assign(spec, image)
        # The door starts in a thread while the container is created: both wait for the engine.
        with ExitStack() as parts:
            cell = self._cells.take()
            parts.callback(cell.close)
            opening = BackgroundTask(lambda: _open_ports(cell, spec))
            # Runs before `cell.close` on failure, so that the door is not removed while it starts.
            parts.callback(opening.join)
            provisions = provision(cell)
            mounted_files = MountedFiles(cell.folder / "files", own_files(cell, spec))
            made = self._make_container(spec, image, cell, mounted_files.write(provisions), resolved, parts)
            opening.result()
            return UnassignedContainer(spec, image, cell, made, provisions, mounted_files, parts.pop_all())
        raise AssertionError("not reached")

    def _make_container(
        self,
        spec: Spec,
        image: str,
        cell: NetworkCell,
        files: dict[str, Path],
        resolved: tuple[Mount, ...],
        parts: ExitStack,
    ) -> str:
        resolved = mount_check.check_mounts(resolved, self._guarded, (*container.RESERVED_PATHS, *files))
        workspace = self._make_workspace(spec, cell, parts)
        # The workspace exists by now, because the container's configuration names its volume.
        placing = container.Placement(
            image=image,
            network=cell.network,
            workspace=workspace,
            lease=self._lease,
            has_ipv6=self._cells.has_ipv6,
            cpus=os.cpu_count() or 1,
            files={**files, death_pipe.PIPE_PATH: cell.lifeline.path},
            isolation=self._isolation,
            keeps=self._keeps,
            shown=self._make_image_volumes(spec, image, cell, parts),
        )
        made = self._engine.create_container(
            names.unassigned(cell.id), container.config(spec, placing, resolved)
        )
        parts.callback(_retry_once, lambda: self._engine.remove_container(made))
        if workspace:
            # After the container was created: that copies the image's content and owner into the volume.
            owning = BackgroundTask(
                lambda: give_to_user(
                    self._engine, self._cells.image, workspace, self._lease, (spec.user, spec.group)
                )
            )
            # Runs before the volume is removed on failure.
            parts.callback(owning.join)
            self._engine.start_container(made)
            owning.result()
        else:
            self._engine.start_container(made)
        return made

    def _make_workspace(self, spec: Spec, cell: NetworkCell, parts: ExitStack) -> str:
        if spec.limits.disk_mib is not None or not container.has_own_workspace(spec):
            return ""
        return self._make_volume(names.workspace(cell.id), parts)

    def _make_image_volumes(
        self, spec: Spec, image: str, cell: NetworkCell, parts: ExitStack
    ) -> dict[str, str]:
        """Volumes that cover the image's own volumes; the engine copies the image's content into them."""
        if not spec.has_read_only_image:
            return {}
        targets = container.volumes_to_cover(spec, self._engine.image_volumes(image))
        return {
            target: self._make_volume(names.image_volume(cell.id, number), parts)
            for number, target in enumerate(targets)
        }

    def _make_volume(self, name: str, parts: ExitStack) -> str:
        self._engine.create_volume(name, labels.owner_labels(labels.ROLE_WORKSPACE, self._lease))
        parts.callback(self._engine.remove_volume, name)
        return name


def _retry_once(act: Callable[[], None]) -> None:
    """Retry a failed removal once: the caller removes a sandbox only once."""
    try:
        act()
    except SandboxError:
        act()


def _open_ports(cell: NetworkCell, spec: Spec) -> None:
    cell.open()
    cell.door_controller.open(default_ports(spec.ports))


def own_files(cell: NetworkCell, spec: Spec) -> dict[str, bytes]:
    """The files that every sandbox needs, and the names of a user that no image knows."""
    needed = {
        container.RESOLVER_PATH: container.resolver(cell.door_address),
        SUPERVISOR_PATH: SUPERVISOR_SCRIPT.encode("ascii"),
    }
    if not is_own(spec):
        return needed
    names = {
        "/etc/passwd": passwd_files.passwd(spec.user, spec.group),
        "/etc/group": passwd_files.groups(spec.group),
    }
    return {**needed, **names}


# A dummy admission shows which files provisions will have, before a sandbox exists to be admitted.
@functools.cache
def dummy_admission() -> Admission:
    """An admission with the certificate of an authority that signs nothing: its key is discarded."""
    return Admission("sample", Authority.create("sample", now=0).certificate_pem.decode("ascii"))
