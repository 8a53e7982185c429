"""Keeps sandboxes beyond their runtime, and takes over those of the last one.

Their containers go on, or stay stopped, in a network that leads nowhere: its door has ended with the runtime.
A container is taken over only as it was left: the one of the record, in its own network and no other, with
nobody else in that network. Anything else is stopped, and stays for its operator to look at.

A sandbox that is taken over gets a new door at the same address. Its commands run on, and see a pause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from egress.errors import EgressError, UnreadableError, reason_of
from egress.logger import EventLogger
from egress.runtime.docker import bridge_network, labels, names
from egress.runtime.docker.bridge_network import BridgeNetwork, NetworkAddresses
from egress.runtime.docker.engine import ContainerGoneError, DockerEngine, Json
from egress.runtime.docker.kept_record import KeptRecord, KeptRecords
from egress.runtime.docker.network_cell import NetworkCell, NetworkCellPool
from egress.runtime.docker.unassigned_container import UnassignedContainer, own_files
from egress.runtime.door.controller import default_ports
from egress.runtime.errors import SandboxError, SandboxStateError
from egress.runtime.mounted_files import MountedFiles
from egress.runtime.owner_lock import kept_lease
from egress.runtime.protocol import KeptTerms, Provisions
from egress.runtime.proxy_client import Admission
from egress.runtime.spec import Spec

_log = EventLogger(__name__)


class KeptSandboxes:
    """The kept sandboxes of one folder. Its caller holds the kept lease."""

    def __init__(self, engine: DockerEngine, home: Path) -> None:
        self._engine = engine
        self._lease = str(kept_lease(home))
        self._records = KeptRecords(home, kept_lease(home))
        self.losses: list[str] = []
        """What did not come back, and why, for the operator."""

    # Keeping

    def record(
        self, spec: Spec, container: UnassignedContainer, admission: Admission, terms: KeptTerms
    ) -> KeptRecord:
        """Write the record of a sandbox. Raises `EngineUnavailableError`."""
        cell = container.cell
        record = KeptRecord(
            cell=cell.id,
            container=container.container,
            image=container.image,
            network=cell.network.id,
            subnet=cell.network.addresses.subnet,
            spec=spec,
            admission=admission,
            files=tuple(sorted(container.mounted_files.own)),
            ports=_open_ports(cell),
            note=terms.note,
            deadline=terms.deadline,
            bar="",
        )
        self._records.write(record)
        return record

    def write(self, record: KeptRecord) -> None:
        """Write a record again. Raises `EngineUnavailableError`."""
        self._records.write(record)

    def forget(self, cell: NetworkCell) -> None:
        """Keep a sandbox no longer. Comes before its removal: half a sandbox is never taken over."""
        self._records.remove(cell.id)

    def examine(self) -> None:
        """Forget sandboxes whose containers were removed in the meantime, and stop those nobody can read."""
        there = self._engine.containers(f"{labels.LEASE_LABEL}={self._lease}")
        for cell in self._records.cells():
            try:
                record = self._records.read(cell)
            except UnreadableError as error:
                _log.error("sandbox.unreadable", cause=error.message, hint=error.hint)
                self.losses.append(f"a sandbox was stopped and not taken over: {error.message}")
                for each in there:
                    if names.cell_of(each.name) == cell:
                        self._stop(each.id)
                continue
            if record.container not in {each.id for each in there}:
                _log.warning("sandbox.gone", sandbox=record.spec.name, cause="its container was removed")
                self.losses.append(f"the sandbox {record.spec.name} is gone: its container was removed")
                self._records.remove(cell)

    # Taking over

    def records(self) -> tuple[KeptRecord, ...]:
        """The records that can be read."""
        return tuple(self._readable())

    def _readable(self) -> Iterator[KeptRecord]:
        for cell in self._records.cells():
            with suppress(UnreadableError):
                yield self._records.read(cell)

    def take_over(
        self,
        record: KeptRecord,
        cells: NetworkCellPool,
        check_mounts: Callable[[Spec], object],
        provision: Callable[[NetworkCell], Provisions],
    ) -> tuple[UnassignedContainer, bool] | None:
        """The container of a sandbox, and whether it was started; None for one that has changed.

        `check_mounts` raises for mounts that no sandbox may have now: files of ours may lie there since.
        """
        try:
            name = self._verified_name(record)
            check_mounts(record.spec)
            if record.bar == "canary":
                # Before it gets anything: it must not run when others may reach it.
                self._engine.stop_container(record.container, grace=0)
            return self._assembled(record, cells, provision), names.is_started(name)
        except (SandboxError, OSError) as error:
            cause = error.message if isinstance(error, EgressError) else reason_of(error)
            _log.error(
                "sandbox.not_taken_over",
                sandbox=record.spec.name,
                cause=cause,
                hint="it was stopped; `egress down` removes it",
            )
            self.losses.append(f"the sandbox {record.spec.name} was stopped and not taken over: {cause}")
            self._stop(record.container)
            return None

    def _stop(self, container: str) -> None:
        with suppress(SandboxError):
            self._engine.stop_container(container, grace=0)

    def _verified_name(self, record: KeptRecord) -> str:
        """The name of the container. Raises `SandboxError` if it is not as it was left."""
        try:
            container = self._engine.inspect_container(record.container)
            network = self._engine.inspect_network(record.network)
        except ContainerGoneError:
            raise SandboxStateError("its container or its network was removed", "") from None
        bridge_network.check_isolated(network, record.subnet)
        if reason := difference(container, network, record, self._lease):
            raise SandboxStateError(reason, "")
        return str(container.get("Name", "")).removeprefix("/")

    def _assembled(
        self, record: KeptRecord, cells: NetworkCellPool, provision: Callable[[NetworkCell], Provisions]
    ) -> UnassignedContainer:
        network = BridgeNetwork(record.network, NetworkAddresses(record.subnet))
        cell = cells.take_over(record.cell, network)
        try:
            mounted_files = MountedFiles(cell.folder / "files", _same_files(cell, record))
            provisions = provision(cell)
            mounted_files.renew(provisions)
            cell.open()
            cell.door_controller.open(default_ports(record.ports))
        except BaseException:
            cell.leave()
            raise
        parts = ExitStack()
        parts.callback(cell.close)
        for volume in self._volumes(record.cell):
            parts.callback(self._engine.remove_volume, volume)
        parts.callback(self._engine.remove_container, record.container)
        return UnassignedContainer(
            record.spec, record.image, cell, record.container, provisions, mounted_files, parts
        )

    def _volumes(self, cell: str) -> list[str]:
        found = self._engine.volumes(f"{labels.LEASE_LABEL}={self._lease}")
        return [name for each in found if names.cell_of(name := str(each["Name"])) == cell]


def difference(container: Json, network: Json, record: KeptRecord, lease: str) -> str:
    """In what a container is not the one that was left; empty if it is. Pure."""
    name = str(container.get("Name", "")).removeprefix("/")
    networks = _inner(container, "NetworkSettings", "Networks")
    joined = [str(each.get("NetworkID")) for each in networks.values() if isinstance(each, dict)]
    marks = labels.owner_labels(labels.ROLE_SANDBOX, lease)
    others = set(_inner(network, "Containers")) - {record.container}
    checks = (
        (container.get("Id") == record.container, "the engine has another container in its place"),
        (names.sandbox_of(name) == record.spec.name, "its container was renamed"),
        (names.cell_of(name) == record.cell, "its container was renamed"),
        (marks.items() <= _inner(container, "Config", "Labels").items(), "its container has other labels"),
        (container.get("Image") == record.image, "its container has another image"),
        (_inner(container, "HostConfig").get("NetworkMode") == record.network, "it has another network"),
        (joined == [record.network], "its container was connected to another network"),
        (not others, "another container was connected to its network"),
    )
    return next((reason for is_same, reason in checks if not is_same), "")


def _inner(found: Json, *path: str) -> Mapping[str, object]:
    for key in path:
        value = found.get(key)
        found = value if isinstance(value, dict) else {}
    return found


def _same_files(cell: NetworkCell, record: KeptRecord) -> Mapping[str, bytes]:
    """The files of every sandbox. Raises `SandboxStateError` if they are not those of its container."""
    files = own_files(cell, record.spec)
    # The mounts of the container follow the order of these files, and cannot be changed.
    if tuple(sorted(files)) != record.files:
        raise SandboxStateError("another version of egress made it, with other files", "")
    return files


def _open_ports(cell: NetworkCell) -> tuple[int, ...]:
    return tuple(sorted(each.port for each in cell.door_controller.listeners if each.kind == "transparent"))
