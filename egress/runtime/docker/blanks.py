"""Blanks: a container that runs, in a cell of its own, and that is nobody's yet.

Every sandbox begins as one. Whether it was made ahead makes no difference to it: its owner's name, files and
variables come when it is taken, and until then nothing runs in it but what waits. A blank that is not taken
is thrown away; one that was used never becomes one again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from egress.runtime import mounts
from egress.runtime import spec as values
from egress.runtime.docker import container, labels, lifeline, names
from egress.runtime.docker.cells import Cell, Cells
from egress.runtime.docker.engine import Engine
from egress.runtime.docker.isolation import Isolation
from egress.runtime.docker.workspace import give
from egress.runtime.door.keeper import usual
from egress.runtime.errors import SandboxError
from egress.runtime.laid import Laid
from egress.runtime.protocol import Outfit
from egress.runtime.spec import Mount, Spec

_SUPERVISOR: Final = Path(values.__file__).with_name("supervisor.sh")


@dataclass(slots=True)
class Blank:
    """One that is ready to be taken."""

    spec: Spec
    """What it was made for, but for whose it is."""
    image: str
    """Its id."""
    cell: Cell
    container: str
    outfit: Outfit
    """What lies in it now."""
    laid: Laid
    parts: ExitStack = field(repr=False)

    def fits(self, outfit: Outfit) -> bool:
        """Whether another outfit can come in the place of what lies there: what is mounted stays."""
        return self.outfit.folder == outfit.folder and self.outfit.overmounts == outfit.overmounts

    def close(self) -> None:
        """Take all of it away."""
        self.parts.close()


def unworn(outfit: Outfit) -> Outfit:
    """What has to lie there before anybody's outfit does: the files that are mounted elsewhere, empty."""
    sources = set(outfit.overmounts.values())
    return Outfit(folder=outfit.folder, files=dict.fromkeys(sources, b""), overmounts=outfit.overmounts)


class Blanks:
    """Makes them."""

    def __init__(
        self, engine: Engine, cells: Cells, lease: str, guarded: Iterable[Path], isolation: Isolation
    ) -> None:
        self._engine = engine
        self._cells = cells
        self._lease = lease
        self._guarded = tuple(guarded)
        self._isolation = isolation

    def mounts(self, spec: Spec) -> tuple[Mount, ...]:
        """What is to be mounted, by where it ends. Raises `MountError`."""
        return mounts.checked(spec.mounts, self._guarded, container.OURS)

    def made(self, spec: Spec, image: str, outfit: Callable[[Cell], Outfit]) -> Blank:
        """Make one: its door and its container at the same time. Where that fails nothing is left of it."""
        bound = self.mounts(spec)
        with ExitStack() as parts:
            cell = self._cells.take()
            parts.callback(cell.close)
            opening = _Aside(lambda: _open(cell, spec))
            # Before the cell is closed.
            parts.callback(opening.join)
            worn = outfit(cell)
            laid = Laid(cell.folder / "files", _own_files(cell))
            made = self._contained(spec, image, cell, laid.lay(worn), bound, parts)
            opening.result()
            return Blank(spec, image, cell, made, worn, laid, parts.pop_all())
        raise AssertionError("not reached")

    def _contained(
        self,
        spec: Spec,
        image: str,
        cell: Cell,
        seen: dict[str, Path],
        bound: tuple[Mount, ...],
        parts: ExitStack,
    ) -> str:
        bound = mounts.checked(bound, self._guarded, (*container.OURS, *seen))
        workspace = self._workspace(spec, cell, parts)
        placing = container.Placing(
            image=image,
            network=cell.network,
            workspace=workspace,
            lease=self._lease,
            has_ipv6=self._cells.has_ipv6,
            cpus=os.cpu_count() or 1,
            files={**seen, lifeline.PATH: cell.lifeline.path},
            isolation=self._isolation,
            shown=self._shown(spec, image, cell, parts),
        )
        made = self._engine.create_container(names.waiting(cell.id), container.config(spec, placing, bound))
        parts.callback(_twice, lambda: self._engine.remove_container(made))
        if workspace:
            # Not before: the engine copies what the image has there, and its owner.
            owning = _Aside(
                lambda: give(self._engine, self._cells.image, workspace, self._lease, (spec.user, spec.group))
            )
            # Before the volume goes.
            parts.callback(owning.join)
            self._engine.start_container(made)
            owning.result()
        else:
            self._engine.start_container(made)
        return made

    def _workspace(self, spec: Spec, cell: Cell, parts: ExitStack) -> str:
        if spec.limits.disk_mib is not None or not container.has_own_workspace(spec):
            return ""
        return self._volume(names.workspace(cell.id), parts)

    def _shown(self, spec: Spec, image: str, cell: Cell, parts: ExitStack) -> dict[str, str]:
        """Volumes for what the image declares as such: the engine copies what it has there."""
        if not spec.is_closed:
            return {}
        targets = container.unwritten(spec, self._engine.image_volumes(image))
        return {
            target: self._volume(names.shown(cell.id, number), parts) for number, target in enumerate(targets)
        }

    def _volume(self, name: str, parts: ExitStack) -> str:
        self._engine.create_volume(name, labels.marked(labels.ROLE_WORKSPACE, self._lease))
        parts.callback(self._engine.remove_volume, name)
        return name


class _Aside:
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


def _twice(act: Callable[[], None]) -> None:
    """Once more where it fails: whoever asked for the end of a sandbox will not ask again."""
    try:
        act()
    except SandboxError:
        act()


def _open(cell: Cell, spec: Spec) -> None:
    cell.open()
    cell.keeper.open(usual(spec.ports))


def _own_files(cell: Cell) -> dict[str, bytes]:
    """What no sandbox can do without."""
    return {
        container.RESOLVER: container.resolver(cell.door),
        container.SUPERVISOR: _SUPERVISOR.read_bytes(),
    }
