"""Blanks: a container that runs, in a cell of its own, and that is nobody's yet.

Every sandbox begins as one. Whether it was made ahead makes no difference to it: its owner's name, files and
variables come when it is taken, and until then nothing runs in it but what waits. A blank that is not taken
is thrown away; one that was used never becomes one again.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from egress.ca import Authority
from egress.runtime import mounts
from egress.runtime.docker import container, death_pipe, labels, names
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.isolation import Isolation
from egress.runtime.docker.network_cell import NetworkCell, NetworkCellPool
from egress.runtime.docker.workspace_volume import give_to_user
from egress.runtime.door.controller import default_ports
from egress.runtime.errors import SandboxError
from egress.runtime.mounted_files import MountedFiles
from egress.runtime.protocol import Provisions
from egress.runtime.proxy_client import Admission
from egress.runtime.spec import Mount, Spec
from egress.runtime.supervisor import SUPERVISOR_SCRIPT


@dataclass(slots=True)
class UnassignedContainer:
    """One that is ready to be taken."""

    spec: Spec
    """What it was made for, but for whose it is."""
    image: str
    """Its id."""
    cell: NetworkCell
    container: str
    provisions: Provisions
    """What lies in it now."""
    mounted_files: MountedFiles
    parts: ExitStack = field(repr=False)

    def fits(self, outfit: Provisions) -> bool:
        """Whether another outfit can come in the place of what lies there: what is mounted stays."""
        return self.provisions.folder == outfit.folder and self.provisions.overmounts == outfit.overmounts

    def close(self) -> None:
        """Take all of it away."""
        self.parts.close()


def mount_placeholders(outfit: Provisions) -> Provisions:
    """What has to lie there before anybody's outfit does: the files that are mounted elsewhere, empty."""
    sources = set(outfit.overmounts.values())
    return Provisions(folder=outfit.folder, files=dict.fromkeys(sources, b""), overmounts=outfit.overmounts)


class UnassignedContainerFactory:
    """Makes them."""

    def __init__(
        self,
        engine: DockerEngine,
        cells: NetworkCellPool,
        lease: str,
        guarded: Iterable[Path],
        isolation: Isolation,
    ) -> None:
        self._engine = engine
        self._cells = cells
        self._lease = lease
        self._guarded = tuple(guarded)
        self._isolation = isolation

    def mounts(self, spec: Spec) -> tuple[Mount, ...]:
        """What is to be mounted, by where it ends. Raises `MountError`."""
        return mounts.check_mounts(spec.mounts, self._guarded, container.RESERVED_PATHS)

    def make(
        self, spec: Spec, image: str, outfit: Callable[[NetworkCell], Provisions]
    ) -> UnassignedContainer:
        """Make one: its door and its container at the same time. Where that fails nothing is left of it."""
        bound = self.mounts(spec)
        with ExitStack() as parts:
            cell = self._cells.take()
            parts.callback(cell.close)
            opening = _BackgroundTask(lambda: _open_ports(cell, spec))
            # Before the cell is closed.
            parts.callback(opening.join)
            worn = outfit(cell)
            laid = MountedFiles(cell.folder / "files", _own_files(cell))
            made = self._make_container(spec, image, cell, laid.write(worn), bound, parts)
            opening.result()
            return UnassignedContainer(spec, image, cell, made, worn, laid, parts.pop_all())
        raise AssertionError("not reached")

    def _make_container(
        self,
        spec: Spec,
        image: str,
        cell: NetworkCell,
        seen: dict[str, Path],
        bound: tuple[Mount, ...],
        parts: ExitStack,
    ) -> str:
        bound = mounts.check_mounts(bound, self._guarded, (*container.RESERVED_PATHS, *seen))
        workspace = self._make_workspace(spec, cell, parts)
        placing = container.Placement(
            image=image,
            network=cell.network,
            workspace=workspace,
            lease=self._lease,
            has_ipv6=self._cells.has_ipv6,
            cpus=os.cpu_count() or 1,
            files={**seen, death_pipe.PIPE_PATH: cell.lifeline.path},
            isolation=self._isolation,
            shown=self._make_image_volumes(spec, image, cell, parts),
        )
        made = self._engine.create_container(
            names.unassigned(cell.id), container.config(spec, placing, bound)
        )
        parts.callback(_retry_once, lambda: self._engine.remove_container(made))
        if workspace:
            # Not before: the engine copies what the image has there, and its owner.
            owning = _BackgroundTask(
                lambda: give_to_user(
                    self._engine, self._cells.image, workspace, self._lease, (spec.user, spec.group)
                )
            )
            # Before the volume goes.
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
        """Volumes for what the image declares as such: the engine copies what it has there."""
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


class _BackgroundTask:
    """What is done meanwhile."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="egress-aside", daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def result(self) -> None:
        """Wait for it. Raises what went wrong."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._act()
        except BaseException as error:  # noqa: BLE001 - told to whoever waits
            self._failure = error


def _retry_once(act: Callable[[], None]) -> None:
    """Once more where it fails: whoever asked for the end of a sandbox will not ask again."""
    try:
        act()
    except SandboxError:
        act()


def _open_ports(cell: NetworkCell, spec: Spec) -> None:
    cell.open()
    cell.door_controller.open(default_ports(spec.ports))


def _own_files(cell: NetworkCell) -> dict[str, bytes]:
    """What no sandbox can do without."""
    return {
        container.RESOLVER_PATH: container.resolver(cell.door_address),
        container.SUPERVISOR_PATH: SUPERVISOR_SCRIPT.encode("ascii"),
    }


# An admission that is nobody's: so an outfit can be looked at before there is anybody to wear it.
@functools.cache
def dummy_admission() -> Admission:
    """With the certificate of an authority that signs nothing: its key is not kept."""
    return Admission("sample", Authority.create("sample", now=0).certificate_pem.decode("ascii"))
