"""The container of a sandbox, as the engine is asked for it. Pure.

Nothing of the image decides how it is run: neither its user, nor its entry point, nor what it would do to see
whether it is well. It waits, and commands come later, each with its environment. Whose it will be is not in
it: one that was made ahead is the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from egress.runtime.docker import labels, lifeline
from egress.runtime.docker.engine import Json
from egress.runtime.docker.hardening import MIB, bound, hardened, in_network
from egress.runtime.docker.isolation import USUAL, Isolation
from egress.runtime.docker.networks import Network
from egress.runtime.protocol import Outfit
from egress.runtime.spec import Mount, Spec

SUPERVISOR: Final = "/.egress/supervisor.sh"
RESOLVER: Final = "/etc/resolv.conf"
OURS: Final = ("/.egress",)
"""Where nothing of others is mounted."""
WAITER: Final = "65533:65533"
"""Whose the process is that waits for the runtime's end. Commands are of another user: whoever could stop it
would outlive the runtime."""
_HOSTNAME: Final = "sandbox"
_TEMPORARY: Final = "/tmp"  # noqa: S108 - that of the sandbox


@dataclass(frozen=True, slots=True)
class Placing:
    """Where a sandbox is put."""

    image: str
    """Its id: a name could mean another one by now."""
    network: Network
    workspace: str
    """The name of its volume; empty where something is mounted there."""
    lease: str
    has_ipv6: bool = True
    cpus: int = 1024
    """How many the machine has: an engine refuses to give more."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """What is mounted read-only, by path in the sandbox: where it is on the host."""
    isolation: Isolation = USUAL


def config(spec: Spec, placing: Placing, mounts: tuple[Mount, ...]) -> Json:
    """What the engine is asked for."""
    network = placing.network
    return {
        "Image": placing.image,
        "Hostname": _HOSTNAME,
        "User": WAITER,
        "Entrypoint": ["/bin/sh", "-c", lifeline.WAIT],
        "Cmd": [],
        "WorkingDir": spec.workdir,
        "Labels": labels.marked(labels.ROLE_SANDBOX, placing.lease),
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGTERM",
        "HostConfig": {
            **hardened(
                spec.limits.memory_mib * MIB,
                spec.limits.processes,
                min(spec.limits.cpus, placing.cpus),
                has_ipv6=placing.has_ipv6,
                isolation=placing.isolation,
            ),
            "Init": True,
            "ReadonlyRootfs": spec.read_only,
            "NetworkMode": network.id,
            # The engine has a name server in every container. Whatever it would ask of others, it asks the
            # door.
            "Dns": [str(network.addresses.door)],
            "DnsOptions": [],
            "DnsSearch": ["."],
            "Tmpfs": _temporary(spec),
            "Mounts": _mounts(spec, placing, mounts),
        },
        "NetworkingConfig": in_network(network.id, str(network.addresses.sandbox)),
    }


def variables(spec: Spec, outfit: Outfit) -> dict[str, str]:
    """The environment of every process. The way to the proxy is not the user's to change."""
    return {**spec.env, **outfit.variables}


def resolver(door: str) -> bytes:
    """The file that names the name server. There is one, it is near, and it answers at once or never."""
    return f"nameserver {door}\noptions timeout:2 attempts:2\n".encode()


def has_own_workspace(spec: Spec) -> bool:
    """Whether its working folder is a volume of its own, and nothing that was mounted."""
    workdir = os.path.normpath(spec.workdir)
    return not any(Path(workdir).is_relative_to(os.path.normpath(mount.target)) for mount in spec.mounts)


def _temporary(spec: Spec) -> dict[str, str]:
    size = f"size={spec.limits.temporary_mib}m"
    return {_TEMPORARY: f"rw,nosuid,nodev,mode=1777,{size}"} if spec.read_only else {}


def _mounts(spec: Spec, placing: Placing, mounts: tuple[Mount, ...]) -> list[Mapping[str, object]]:
    found = [bound(str(source), target) for target, source in placing.files.items()]
    found += [bound(str(mount.source), mount.target, writable=mount.writable) for mount in mounts]
    if placing.workspace:
        found.append({"Type": "volume", "Source": placing.workspace, "Target": spec.workdir})
    return found
