"""Removes what a dead runtime left at the engine, found by labels.

Everything at the engine names the lease of its owner. A lease that no process holds means that the owner is
dead. Only leases in this folder for sandboxes are looked at: other users of the engine have their own
folders.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from egress.runtime.docker import labels, names
from egress.runtime.docker.engine import Container, DockerEngine
from egress.runtime.errors import SandboxError
from egress.runtime.owner_lock import is_held, owner_of
from egress.runtime.proxy_client import ProxyClient


def reap(engine: DockerEngine, home: Path, proxy: ProxyClient | None = None) -> tuple[str, ...]:
    """Remove all leftovers, also at the proxy; returns the names of the sandboxes among them."""
    leases = _OwnerLocks(home)
    there = engine.containers(labels.LEASE_LABEL)
    left = [each for each in there if leases.is_stale(each.labels)]
    # Containers first: networks and volumes in use cannot be removed.
    for container in left:
        engine.remove_container(container.id)
    for network, found in _labelled(engine.networks(), "Id"):
        if leases.is_stale(found):
            engine.remove_network(network)
    for volume, found in _labelled(engine.volumes(labels.LEASE_LABEL), "Name"):
        if leases.is_stale(found):
            # A container that is not ours may use the volume.
            with suppress(SandboxError):
                engine.remove_volume(volume)
    for folder in home.iterdir() if home.is_dir() else ():
        # Folders without our owner file are not ours to delete.
        if folder.is_dir() and leases.is_stale({labels.LEASE_LABEL: owner_of(folder)}):
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

    def __init__(self, home: Path) -> None:
        self._home = home
        self._left: dict[Path, bool] = {}

    def is_stale(self, found: Mapping[str, str]) -> bool:
        lease = Path(found.get(labels.LEASE_LABEL, ""))
        if lease.parent != self._home:
            return False
        if lease not in self._left:
            self._left[lease] = not is_held(lease)
        return self._left[lease]

    def forget(self) -> None:
        """Remove the leases of dead owners."""
        for lease, is_left in self._left.items():
            if is_left:
                lease.unlink(missing_ok=True)


def _labelled(things: list[Mapping[str, object]], key: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    for thing in things:
        found = thing.get("Labels")
        if isinstance(found, dict) and labels.LEASE_LABEL in found:
            yield str(thing[key]), {str(name): str(value) for name, value in found.items()}
