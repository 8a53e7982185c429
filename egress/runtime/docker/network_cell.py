"""Cells: a network with a door in it, ready for a sandbox.

They take much of the time that a sandbox takes, and nothing about them depends on which one it is, so some
can be made ahead. Each is used once: what a sandbox could have done to one ends with it.
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
from egress.runtime.docker.bridge_network import BridgeNetwork
from egress.runtime.docker.death_pipe import DeathPipe
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.prewarmer import Prewarmer
from egress.runtime.door.controller import DoorController, default_ports
from egress.runtime.errors import SandboxError
from egress.runtime.mounted_files import folder_errors
from egress.runtime.owner_lock import write_owner

_IPV6_PATH: Final = Path("/proc/sys/net/ipv6")


@dataclass(slots=True)
class NetworkCell:
    """One whose network is there. When it was opened its usual ports are open, and nobody serves them yet."""

    id: str
    network: BridgeNetwork
    door_controller: DoorController
    folder: Path
    """Of its files on the host; for those of the sandbox as well."""
    lifeline: DeathPipe
    _begin_door: Callable[[ExitStack], Callable[[], None]] = field(repr=False)
    _parts: ExitStack = field(repr=False)
    _end_door: Callable[[], None] | None = field(default=None, repr=False)
    _ending: threading.Thread | None = field(default=None, repr=False)

    @property
    def door_address(self) -> str:
        return str(self.network.addresses.door)

    @property
    def sandbox_address(self) -> str:
        return str(self.network.addresses.sandbox)

    def open(self) -> None:
        """Have a door in it, if it has none. Raises `SandboxError`; what there is then goes with `close`."""
        if self._end_door is None:
            self._end_door = self._begin_door(self._parts)

    def end_network(self) -> None:
        """Begin to end its door, and return at once: from then on nothing comes out of the sandbox."""
        self.door_controller.close()
        if self._end_door is not None:
            self._ending = threading.Thread(target=_retry_once, args=(self._end_door,))
            self._ending.start()

    def close(self) -> None:
        """Take all of it away."""
        if self._ending is not None:
            self._ending.join()
        self._parts.close()


class NetworkCellPool:
    """Makes cells, and keeps some ready."""

    def __init__(self, engine: DockerEngine, home: Path, lease: str, ready: int = 0) -> None:
        """`ready`: how many are made ahead, from now on."""
        open_file_limit.raise_own_limit()
        self._engine = engine
        self._home = home
        self._lease = lease
        self.image = door_container.image(engine)
        self.has_ipv6 = _IPV6_PATH.exists()
        self.shelf = Prewarmer("egress-cells", self._open_cell, NetworkCell.close)
        self.shelf.want(ready)

    def take(self) -> NetworkCell:
        """A cell: one that is ready, if there is one, else one that is still to be opened."""
        return self.shelf.take() or self._make_cell()

    def close(self) -> None:
        """Take away those that nobody took."""
        self.shelf.close()

    def _open_cell(self) -> NetworkCell:
        cell = self._make_cell()
        try:
            cell.open()
        except BaseException:
            cell.close()
            raise
        return cell

    def _make_cell(self) -> NetworkCell:
        number = secrets.token_hex(4)
        with ExitStack() as parts:
            folder = self._home / number
            meeting = folder / "door"
            with folder_errors(self._home):
                folder.mkdir(mode=0o700)
                parts.callback(shutil.rmtree, folder, ignore_errors=True)
                write_owner(folder, self._lease)
                meeting.mkdir()
                # The door's own user has to find the socket in it. Nobody else gets as far as here.
                meeting.chmod(0o711)
            lifeline = DeathPipe(folder / "lifeline")
            parts.callback(lifeline.close)
            network = bridge_network.create(self._engine, names.network(number), self._lease)
            parts.callback(_retry_once, lambda: self._engine.remove_network(network.id))
            keeper = parts.enter_context(DoorController(meeting, str(network.addresses.door)))
            begin = functools.partial(self._begin_door, number, network, meeting, keeper)
            return NetworkCell(number, network, keeper, folder, lifeline, begin, parts.pop_all())
        raise AssertionError("not reached")

    def _begin_door(
        self, number: str, network: BridgeNetwork, meeting: Path, keeper: DoorController, parts: ExitStack
    ) -> Callable[[], None]:
        """Begin one, and have it open what every sandbox needs; returns what ends it."""
        config = door_container.config(self.image, network, meeting, self._lease, has_ipv6=self.has_ipv6)
        door = self._engine.create_container(names.door(number), config)
        end = functools.partial(self._engine.remove_container, door)
        parts.callback(end)
        self._engine.start_container(door)
        keeper.wait(lambda: self._is_alive(door))
        keeper.open(default_ports())
        return end

    def _is_alive(self, door: str) -> bool:
        found = self._engine.container_state(door)
        return found is not None and found.is_alive


def _retry_once(act: Callable[[], None]) -> None:
    """Once more where it fails: an engine may still be busy with what used it."""
    try:
        act()
    except SandboxError:
        with suppress(SandboxError):
            act()
