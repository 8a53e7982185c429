"""Removes what a dead runtime left at the engine, found by labels.

Everything at the engine names the lease of its owner. A lease that no process holds means that the owner is
dead. Only leases in this folder for sandboxes are looked at: other users of the engine have their own
folders.

Kept sandboxes are spared: they wait for the next owner of the kept lease. That lease is held while its
leftovers are removed, so that no new owner makes something in the meantime that looks like one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from egress.errors import UnreadableError
from egress.runtime.docker import labels, names
from egress.runtime.docker.engine import Container, DockerEngine
from egress.runtime.docker.kept_record import KeptRecord, KeptRecords
from egress.runtime.errors import SandboxError
from egress.runtime.owner_lock import is_held, kept_lease, owner_of, try_kept_lock
from egress.runtime.proxy_client import ProxyClient

Clock = Callable[[], float]


def reap(
    engine: DockerEngine,
    home: Path,
    proxy: ProxyClient | None = None,
    *,
    clock: Clock | None = None,
    holds_kept: bool = False,
    spares: bool = True,
) -> tuple[str, ...]:
    """Remove all leftovers, also at the proxy; returns the names of the sandboxes among them.

    Kept sandboxes whose time has passed by the `clock` are leftovers too, and all of them unless it `spares`
    them. `holds_kept`: the caller holds the kept lease.
    """
    with ExitStack() as parts:
        leases = _OwnerLocks(home, parts, clock, holds_kept=holds_kept, spares=spares)
        there = engine.containers(labels.LEASE_LABEL)
        left = [each for each in there if leases.is_left_container(each)]
        # Containers first: networks and volumes in use cannot be removed.
        for container in left:
            engine.remove_container(container.id)
        for network, name, found in _labelled(engine.networks(), "Id"):
            if leases.is_stale(found, names.cell_of(name)):
                engine.remove_network(network)
        for volume, name, found in _labelled(engine.volumes(labels.LEASE_LABEL), "Name"):
            if leases.is_stale(found, names.cell_of(name)):
                # A container that is not ours may use the volume.
                with suppress(SandboxError):
                    engine.remove_volume(volume)
        for folder in home.iterdir() if home.is_dir() else ():
            # Folders without our owner file are not ours to delete.
            owner = {labels.LEASE_LABEL: owner_of(folder)} if folder.is_dir() else {}
            if leases.is_stale(owner, folder.name):
                shutil.rmtree(folder, ignore_errors=True)
        leases.forget()
    # A name may belong to a living sandbox as well, after a crash during a rename: that one stays admitted.
    wanted = _names(each for each in there if each not in left)
    gone = tuple(sorted(_names(left) - wanted))
    if proxy is not None:
        for name in gone:
            proxy.dismiss(name)
    return gone


def _names(containers: Iterable[Container]) -> set[str]:
    sandboxes = (each for each in containers if each.labels.get(labels.ROLE_LABEL) == labels.ROLE_SANDBOX)
    return {name for each in sandboxes if (name := names.sandbox_of(each.name))}


class _OwnerLocks:
    """Remembers for each lease whether its owner is dead, so that each is tested once."""

    def __init__(
        self, home: Path, parts: ExitStack, clock: Clock | None, *, holds_kept: bool, spares: bool
    ) -> None:
        """Hold the kept lease until `parts` end, if nobody else does."""
        self._left: dict[Path, bool] = {}
        self._home = home
        self._kept = kept_lease(home)
        self._holds_kept = holds_kept
        self._spared: dict[str, KeptRecord | None] = {}
        """The kept sandboxes by their cells; None for a record that cannot be read."""
        if not holds_kept and home.is_dir():
            lock = try_kept_lock(home)
            self._left[self._kept] = lock is not None
            if lock is not None:
                parts.callback(os.close, lock)
        if spares:
            self._spared = dict(_kept_records(KeptRecords(home, self._kept), clock))

    def is_stale(self, found: Mapping[str, str], cell: str) -> bool:
        """Return whether something with these labels, of this cell, is a leftover."""
        lease = Path(found.get(labels.LEASE_LABEL, ""))
        if lease.parent != self._home:
            return False
        if lease == self._kept and cell in self._spared:
            return False
        if lease == self._kept and self._holds_kept:
            return True
        if lease not in self._left:
            self._left[lease] = not is_held(lease)
        return self._left[lease]

    def is_left_container(self, found: Container) -> bool:
        """Return whether a container is a leftover. Of a kept sandbox only its own container is none."""
        cell = names.cell_of(found.name)
        record = self._spared.get(cell)
        if found.labels.get(labels.ROLE_LABEL) != labels.ROLE_SANDBOX:
            # The door of a kept sandbox ended with its owner, and a helper of its volume has no use any more.
            return self.is_stale(found.labels, "")
        is_another = record is not None and record.container != found.id
        return self.is_stale(found.labels, "" if is_another else cell)

    def forget(self) -> None:
        """Remove the leases of dead owners."""
        for lease, is_left in self._left.items():
            if is_left and not (lease == self._kept and self._spared):
                lease.unlink(missing_ok=True)


def _kept_records(records: KeptRecords, clock: Clock | None) -> Iterator[tuple[str, KeptRecord | None]]:
    """The kept sandboxes whose time has not passed."""
    for cell in records.cells():
        try:
            record = records.read(cell)
        except UnreadableError:
            # It is not known when its time passes, or what it was: only its operator removes it.
            yield cell, None
            continue
        if clock is None or not record.is_over(clock()):
            yield cell, record


def _labelled(things: list[Mapping[str, object]], key: str) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    for thing in things:
        found = thing.get("Labels")
        if isinstance(found, dict) and labels.LEASE_LABEL in found:
            yield (
                str(thing[key]),
                str(thing.get("Name", "")),
                {str(name): str(value) for name, value in found.items()},
            )
