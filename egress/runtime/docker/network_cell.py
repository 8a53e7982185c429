"""Network cells: a sandbox's network with its door, made ahead of the sandbox.

Cells take a large part of a sandbox's start, and do not depend on the sandbox, so a few are kept ready. Each
cell is used once: whatever a sandbox did to it ends with it.
"""

from __future__ import annotations

import functools
import secrets
import shutil
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from egress.runtime import open_file_limit
from egress.runtime.docker import bridge_network, door_container, names
from egress.runtime.docker.background_task import BackgroundTask
from egress.runtime.docker.bridge_network import BridgeNetwork
from egress.runtime.docker.death_pipe import DeathPipe
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.prewarmer import Prewarmer
from egress.runtime.door.controller import SOCKET_NAME, DoorController, default_ports
from egress.runtime.errors import SandboxError
from egress.runtime.mounted_files import folder_errors
from egress.runtime.owner_lock import write_owner

_IPV6_PATH: Final = Path("/proc/sys/net/ipv6")


@dataclass(slots=True)
class NetworkCell:
    """A network with its door. After `open` the usual ports are open, and no proxy serves them yet."""

    id: str
    network: BridgeNetwork
    door_controller: DoorController
    folder: Path
    """The folder of the cell's files on the host, and of its sandbox's."""
    lifeline: DeathPipe
    _begin_door: Callable[[ExitStack], Callable[[], None]] = field(repr=False)
    _parts: ExitStack = field(repr=False)
    _end_door: Callable[[], None] | None = field(default=None, repr=False)
    _opening: BackgroundTask | None = field(default=None, repr=False)
    _ending: threading.Thread | None = field(default=None, repr=False)

    @property
    def door_address(self) -> str:
        return str(self.network.addresses.door)

    @property
    def sandbox_address(self) -> str:
        return str(self.network.addresses.sandbox)

    def begin_open(self) -> None:
        """Start the door without waiting for it; `open` waits, and raises what went wrong."""
        self._opening = BackgroundTask(self._open)

    def open(self) -> None:
        """Start the door if it does not run yet. Raises `SandboxError`; `close` removes the remains."""
        if self._opening is not None:
            self._opening.result()
        else:
            self._open()

    def end_network(self) -> None:
        """Stop the door without waiting: from this call on no traffic leaves the sandbox."""
        self.door_controller.close()
        if self._end_door is not None:
            self._ending = threading.Thread(target=_retry_once, args=(self._end_door,))
            self._ending.start()

    def leave(self) -> None:
        """Let go of the door, which ends. The network, the files and the pipe stay."""
        self.door_controller.close()
        if self._end_door is not None:
            _retry_once(self._end_door)
        self.lifeline.close()
        # Dropped without being called: the next runtime removes these things.
        self._parts.pop_all()

    def close(self) -> None:
        """Remove the door, the network and the files."""
        # A door that still starts would outlive its removal.
        if self._opening is not None:
            self._opening.join()
        if self._ending is not None:
            self._ending.join()
        self._parts.close()

    def _open(self) -> None:
        if self._end_door is None:
            self._end_door = self._begin_door(self._parts)


class NetworkCellPool:
    """Makes cells, and keeps some ready."""

    def __init__(
        self, engine: DockerEngine, home: Path, lease: str, ready: int = 0, *, is_single: bool = False
    ) -> None:
        """`ready` says how many cells are made ahead, from now on; if `is_single`, until one is taken.

        A single cell counts as ready once its network is there: its sandbox and its door then start at the
        same time.
        """
        open_file_limit.raise_own_limit()
        self._engine = engine
        self._home = home
        self._lease = lease
        self.image = door_container.image(engine)
        self.has_ipv6 = _IPV6_PATH.exists()
        self._is_single = is_single
        self.prewarmer = Prewarmer("egress-cells", self._open_cell, NetworkCell.close)
        self.prewarmer.want(ready)

    def take(self) -> NetworkCell:
        """A ready cell if there is one; otherwise a cell that still has to be opened."""
        found = self.prewarmer.take()
        if self._is_single:
            # The engine has few networks to give, and nothing will use another one.
            self.prewarmer.want(0)
        return found or self._make_cell()

    def take_over(self, number: str, network: BridgeNetwork) -> NetworkCell:
        """The cell of a runtime that has ended; its door is new. Raises `SandboxError` or `OSError`."""
        folder = self._home / number
        door_folder = folder / "door"
        # Of the last door, which nobody listens to any more.
        (door_folder / SOCKET_NAME).unlink(missing_ok=True)
        with ExitStack() as held:
            lifeline = DeathPipe(folder / "lifeline", is_there=True)
            held.callback(lifeline.close)
            controller = held.enter_context(DoorController(door_folder, str(network.addresses.door)))
            held.pop_all()
        # Registered in the order of `_make_cell`, for the removal of the sandbox.
        parts = ExitStack()
        parts.callback(shutil.rmtree, folder, ignore_errors=True)
        parts.callback(lifeline.close)
        parts.callback(_retry_once, lambda: self._engine.remove_network(network.id))
        parts.enter_context(controller)
        begin = functools.partial(self._begin_door, number, network, door_folder, controller)
        return NetworkCell(number, network, controller, folder, lifeline, begin, parts)

    def close(self) -> None:
        """Remove the cells that were not taken."""
        self.prewarmer.close()

    def _open_cell(self) -> NetworkCell:
        cell = self._make_cell()
        try:
            if self._is_single:
                cell.begin_open()
            else:
                cell.open()
        except BaseException:
            cell.close()
            raise
        return cell

    def _make_cell(self) -> NetworkCell:
        number = secrets.token_hex(4)
        # Each step registers its own removal, so that a failure at any step removes the earlier ones, last
        # first.
        with ExitStack() as parts:
            folder = self._home / number
            door_folder = folder / "door"
            with folder_errors(self._home):
                folder.mkdir(mode=0o700)
                parts.callback(shutil.rmtree, folder, ignore_errors=True)
                write_owner(folder, self._lease)
                door_folder.mkdir()
                # The door's user has to reach the socket in it. The folder above is closed to all other
                # users.
                door_folder.chmod(0o711)
            # The pipe exists before the container, which mounts it.
            lifeline = DeathPipe(folder / "lifeline")
            parts.callback(lifeline.close)
            network = bridge_network.create(self._engine, names.network(number), self._lease)
            parts.callback(_retry_once, lambda: self._engine.remove_network(network.id))
            controller = parts.enter_context(DoorController(door_folder, str(network.addresses.door)))
            begin = functools.partial(self._begin_door, number, network, door_folder, controller)
            return NetworkCell(number, network, controller, folder, lifeline, begin, parts.pop_all())
        raise AssertionError("not reached")

    def _begin_door(
        self,
        number: str,
        network: BridgeNetwork,
        door_folder: Path,
        controller: DoorController,
        parts: ExitStack,
    ) -> Callable[[], None]:
        """Start a door, and let it open the ports that every sandbox needs; returns its removal."""
        config = door_container.config(self.image, network, door_folder, self._lease, has_ipv6=self.has_ipv6)
        door = self._engine.create_container(names.door(number), config)
        end = functools.partial(self._engine.remove_container, door)
        # Registered before the start: a container that fails to start has to be removed as well.
        parts.callback(end)
        self._engine.start_container(door)
        controller.wait(lambda: self._is_alive(door))
        controller.open(default_ports())
        return end

    def _is_alive(self, door: str) -> bool:
        found = self._engine.container_state(door)
        return found is not None and found.is_alive


def _retry_once(act: Callable[[], None]) -> None:
    """Retry a failed removal once: the engine may still be busy with a user of the network."""
    try:
        act()
    except SandboxError:
        with suppress(SandboxError):
            act()
