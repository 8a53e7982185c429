"""The container of a sandbox, as the engine is asked for it. Pure.

Nothing of the image decides how it is run: neither its user, nor its entry point, nor what it would do to see
whether it is well. It waits, and commands come later, each with its environment. Whose it will be is not in
it: one that was made ahead is the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from egress.runtime import tmpfs
from egress.runtime.docker import death_pipe, labels
from egress.runtime.docker.bridge_network import BridgeNetwork
from egress.runtime.docker.engine import Json
from egress.runtime.docker.hardening import bind_mount, hardened_config, network_config
from egress.runtime.docker.isolation import DEFAULT_ISOLATION, Isolation
from egress.runtime.protocol import Provisions
from egress.runtime.spec import Mount, Spec

SUPERVISOR_PATH: Final = "/.egress/supervisor.sh"
RESOLVER_PATH: Final = "/etc/resolv.conf"
RESERVED_PATHS: Final = ("/.egress",)
"""Where nothing of others is mounted."""
WAITER_USER: Final = "65533:65533"
"""Whose the process is that waits for the runtime's end. Commands are of another user: whoever could stop it
would outlive the runtime."""
_HOSTNAME: Final = "sandbox"
_TEMP_FOLDER: Final = "/tmp"  # noqa: S108 - that of the sandbox
_HOME: Final = "/home/sandbox"
"""Where there is one whatever the image has; a place that it lacks is made by the engine."""
_SHARED_MEMORY_PATH: Final = "/dev/shm"  # noqa: S108
_SHARED_MEMORY_OPTIONS: Final = "rw,nosuid,nodev,noexec,size=64m,nr_inodes=1024,mode=1777"
"""What an engine gives, but with an end to the number of files: 64 KiB of the kernel's own memory can be
tied to each by its access control list, and no group counts that."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a sandbox is put."""

    image: str
    """Its id: a name could mean another one by now."""
    network: BridgeNetwork
    workspace: str
    """The name of its volume; empty where something is mounted there, or it is of memory."""
    lease: str
    has_ipv6: bool = True
    cpus: int = 1024
    """How many the machine has: an engine refuses to give more."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """What is mounted read-only, by path in the sandbox: where it is on the host."""
    isolation: Isolation = DEFAULT_ISOLATION
    shown: Mapping[str, str] = field(default_factory=dict)
    """Volumes that are mounted read-only, by path in the sandbox."""


def config(spec: Spec, placing: Placement, mounts: tuple[Mount, ...]) -> Json:
    """What the engine is asked for."""
    network = placing.network
    return {
        "Image": placing.image,
        "Hostname": _HOSTNAME,
        "User": WAITER_USER,
        "Entrypoint": ["/bin/sh", "-c", death_pipe.WAIT_SCRIPT],
        "Cmd": [],
        "WorkingDir": spec.workdir,
        "Labels": labels.owner_labels(labels.ROLE_SANDBOX, placing.lease),
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGTERM",
        "HostConfig": {
            **hardened_config(
                tmpfs.memory_limit(spec.limits),
                spec.limits.processes,
                min(spec.limits.cpus, placing.cpus),
                has_ipv6=placing.has_ipv6,
                isolation=placing.isolation,
            ),
            "Init": True,
            "ReadonlyRootfs": spec.has_read_only_image,
            "NetworkMode": network.id,
            # The engine has a name server in every container. Whatever it would ask of others, it asks the
            # door.
            "Dns": [str(network.addresses.door)],
            "DnsOptions": [],
            "DnsSearch": ["."],
            "Tmpfs": _tmpfs_mounts(spec),
            "Mounts": _mounts(spec, placing, mounts),
        },
        "NetworkingConfig": network_config(network.id, str(network.addresses.sandbox)),
    }


def variables(spec: Spec, outfit: Provisions) -> dict[str, str]:
    """The environment of every process. The way to the proxy is not the user's to change.

    The home that the image names cannot be written where its disk is bounded, so it is on that.
    """
    place = _disk_path(spec)
    home = {"HOME": place} if place and not spec.read_only else {}
    return {**home, **spec.env, **outfit.variables}


def resolver(door: str) -> bytes:
    """The file that names the name server. There is one, it is near, and it answers at once or never."""
    return f"nameserver {door}\noptions timeout:2 attempts:2\n".encode()


def has_own_workspace(spec: Spec) -> bool:
    """Whether its working folder is a volume of its own, and nothing that was mounted."""
    return not _is_mounted(spec, os.path.normpath(spec.workdir))


def volumes_to_cover(spec: Spec, volumes: Iterable[str]) -> tuple[str, ...]:
    """Which folders that an image declares as volumes have to be closed, for they are no part of its root.

    An engine would give each a folder on its disk to be written, whatever the sandbox may write otherwise.
    """
    if not spec.has_read_only_image:
        return ()
    own = (spec.workdir, _TEMP_FOLDER, _disk_path(spec) or _TEMP_FOLDER)
    taken = {os.path.normpath(each) for each in (*own, *(mount.target for mount in spec.mounts))}
    return tuple(sorted({os.path.normpath(each) for each in volumes} - taken))


def _tmpfs_mounts(spec: Spec) -> dict[str, str]:
    """What is of memory, and how it is mounted. Engines let no program begin there that is not asked for."""
    found = {} if _is_mounted(spec, _SHARED_MEMORY_PATH) else {_SHARED_MEMORY_PATH: _SHARED_MEMORY_OPTIONS}
    if not spec.has_read_only_image:
        return found
    runs = "" if spec.read_only else "exec,"
    if not _is_mounted(spec, _TEMP_FOLDER):
        options = tmpfs.options(spec.limits.temporary_mib, mode=0o1777)
        found[_TEMP_FOLDER] = f"rw,{runs}nosuid,nodev,{options}"
    if place := _disk_path(spec):
        options = tmpfs.options(spec.limits.disk_mib or 0, (spec.user, spec.group))
        found[place] = f"rw,exec,nosuid,nodev,{options}"
    return found


def _disk_path(spec: Spec) -> str:
    """Where a bounded disk is: the working folder, or a home where that was mounted; empty for nowhere."""
    if spec.limits.disk_mib is None:
        return ""
    if has_own_workspace(spec):
        return os.path.normpath(spec.workdir)
    return "" if spec.read_only or _is_mounted(spec, _HOME) else _HOME


def _is_mounted(spec: Spec, path: str) -> bool:
    """Whether something of the host is seen at a path."""
    return any(Path(path).is_relative_to(os.path.normpath(mount.target)) for mount in spec.mounts)


def _mounts(spec: Spec, placing: Placement, mounts: tuple[Mount, ...]) -> list[Mapping[str, object]]:
    found = [bind_mount(str(source), target) for target, source in placing.files.items()]
    found += [bind_mount(str(mount.source), mount.target, writable=mount.writable) for mount in mounts]
    if placing.workspace:
        found.append({"Type": "volume", "Source": placing.workspace, "Target": spec.workdir})
    for target, volume in placing.shown.items():
        found.append({"Type": "volume", "Source": volume, "Target": target, "ReadOnly": True})
    return found
