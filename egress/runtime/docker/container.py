"""The container of a sandbox, as configuration for the engine. Pure.

The image decides nothing about how it runs: neither user, nor entry point, nor health check. The first
process only waits; commands come later, each with its environment. The configuration does not name the
sandbox, so a container can be made before it is assigned.
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

RESOLVER_PATH: Final = "/etc/resolv.conf"
RESERVED_PATHS: Final = ("/.egress",)
"""Paths at which users may mount nothing."""
WAITER_USER: Final = "65533:65533"
"""The user of the waiting first process. Commands run as another user: a process that could stop the waiting
one would outlive the runtime."""
_HOSTNAME: Final = "sandbox"
_TEMP_FOLDER: Final = "/tmp"  # noqa: S108 - that of the sandbox
_HOME: Final = "/home/sandbox"
"""A home that exists in every container: the engine creates missing mount points."""
_SHARED_MEMORY_PATH: Final = "/dev/shm"  # noqa: S108
_SHARED_MEMORY_OPTIONS: Final = "rw,nosuid,nodev,noexec,size=64m,nr_inodes=1024,mode=1777"
"""The engine's defaults, with a limit on inodes: an access control list ties up 64 KiB of kernel memory for
each file, which no control group counts."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Everything besides the spec that a container needs."""

    image: str
    """The image's id: its name may move to another image."""
    network: BridgeNetwork
    workspace: str
    """The name of the workspace volume; empty if the workspace is mounted or in memory."""
    lease: str
    has_ipv6: bool = True
    cpus: int = 1024
    """The CPUs of this machine: the engine refuses a higher limit."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """Read-only files: the path on the host by the path in the sandbox."""
    isolation: Isolation = DEFAULT_ISOLATION
    keeps: bool = False
    """Whether the container may outlive its runtime."""
    shown: Mapping[str, str] = field(default_factory=dict)
    """Read-only volumes: the name by the path in the sandbox."""


def config(spec: Spec, placing: Placement, mounts: tuple[Mount, ...]) -> Json:
    """The container's configuration."""
    network = placing.network
    kept = death_pipe.KEPT_TIMEOUT if placing.keeps else None
    return {
        "Image": placing.image,
        "Hostname": _HOSTNAME,
        "User": WAITER_USER,
        "Entrypoint": ["/bin/sh", "-c", death_pipe.wait_script(kept_timeout=kept)],
        "Cmd": [],
        "WorkingDir": spec.workdir,
        "Labels": labels.owner_labels(labels.ROLE_SANDBOX, placing.lease),
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGTERM",
        # The hardened part comes first; the lines below add settings and override none of it.
        "HostConfig": {
            **hardened_config(
                tmpfs.memory_limit(spec.limits),
                spec.limits.processes,
                min(spec.limits.cpus, placing.cpus),
                has_ipv6=placing.has_ipv6,
                isolation=placing.isolation,
            ),
            # The engine's init reaps orphans: the waiting shell does not.
            "Init": True,
            "ReadonlyRootfs": spec.has_read_only_image,
            "NetworkMode": network.id,
            # The engine's own name server forwards to the door, so a sandbox asks no other server.
            "Dns": [str(network.addresses.door)],
            "DnsOptions": [],
            "DnsSearch": ["."],
            "Tmpfs": _tmpfs_mounts(spec),
            "Mounts": _mounts(spec, placing, mounts),
        },
        "NetworkingConfig": network_config(network.id, str(network.addresses.sandbox)),
    }


def variables(spec: Spec, outfit: Provisions) -> dict[str, str]:
    """The environment of every process. Users cannot override the variables of the proxy.

    With a limited disk the image's home is read-only, so HOME points into that disk.
    """
    place = _disk_path(spec)
    home = {"HOME": place} if place and not spec.read_only else {}
    return {**home, **spec.env, **outfit.variables}


def resolver(door: str) -> bytes:
    """resolv.conf with the door as only name server. It answers at once or never: timeouts are short."""
    return f"nameserver {door}\noptions timeout:2 attempts:2\n".encode()


def has_own_workspace(spec: Spec) -> bool:
    """Return whether the workspace is a volume of its own, not a mount of the user."""
    return not _is_mounted(spec, os.path.normpath(spec.workdir))


def volumes_to_cover(spec: Spec, volumes: Iterable[str]) -> tuple[str, ...]:
    """The image's volumes that have to be covered: they are not part of its read-only root.

    The engine would give each a writable folder on its disk, against the limits of the sandbox.
    """
    if not spec.has_read_only_image:
        return ()
    own = (spec.workdir, _TEMP_FOLDER, _disk_path(spec) or _TEMP_FOLDER)
    taken = {os.path.normpath(each) for each in (*own, *(mount.target for mount in spec.mounts))}
    return tuple(sorted({os.path.normpath(each) for each in volumes} - taken))


def _tmpfs_mounts(spec: Spec) -> dict[str, str]:
    """The tmpfs mounts, by path. Engines mount tmpfs noexec unless `exec` is given."""
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
    """The path of the limited disk: workspace, or home if the workspace is mounted; empty for none."""
    if spec.limits.disk_mib is None:
        return ""
    if has_own_workspace(spec):
        return os.path.normpath(spec.workdir)
    return "" if spec.read_only or _is_mounted(spec, _HOME) else _HOME


def _is_mounted(spec: Spec, path: str) -> bool:
    """Return whether a mount of the user covers this path."""
    return any(Path(path).is_relative_to(os.path.normpath(mount.target)) for mount in spec.mounts)


def _mounts(spec: Spec, placing: Placement, mounts: tuple[Mount, ...]) -> list[Mapping[str, object]]:
    found = [bind_mount(str(source), target) for target, source in placing.files.items()]
    found += [bind_mount(str(mount.source), mount.target, writable=mount.writable) for mount in mounts]
    if placing.workspace:
        found.append({"Type": "volume", "Source": placing.workspace, "Target": spec.workdir})
    for target, volume in placing.shown.items():
        found.append({"Type": "volume", "Source": volume, "Target": target, "ReadOnly": True})
    return found
