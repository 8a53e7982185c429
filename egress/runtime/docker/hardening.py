"""Hardening that every container gets, door and sandbox alike. Pure.

No capabilities and no way to gain one, no swap, and no log with which a sandbox could fill the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from egress.runtime import open_file_limit
from egress.runtime.docker.isolation import DEFAULT_ISOLATION, Isolation

MIB: Final = 1024 * 1024
_NETWORK_SYSCTLS: Final = {"net.ipv6.conf.all.disable_ipv6": "1", "net.ipv6.conf.default.disable_ipv6": "1"}
_LOG_CONFIG: Final = {"Type": "none"}


def hardened_config(
    memory: int, processes: int, cpus: float, *, has_ipv6: bool, isolation: Isolation = DEFAULT_ISOLATION
) -> dict[str, object]:
    """The hardened part of a HostConfig. `memory` is in bytes.

    `has_ipv6`: whether the kernel supports IPv6. Without it the settings that disable IPv6 do not exist.
    """
    return {
        "Privileged": False,
        "CapAdd": [],
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true", *isolation.options],
        "Runtime": isolation.runtime,
        "Memory": memory,
        # The same value as Memory: the engine counts both together, so no swap is left.
        "MemorySwap": memory,
        "NanoCpus": round(cpus * 1_000_000_000),
        "PidsLimit": processes,
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "PublishAllPorts": False,
        "RestartPolicy": {"Name": "no"},
        # No core dumps: they would write a process's memory, canaries included, to the disk.
        "Ulimits": [
            {"Name": "core", "Soft": 0, "Hard": 0},
            {
                "Name": "nofile",
                "Soft": open_file_limit.MAX_OPEN_FILES,
                "Hard": open_file_limit.MAX_OPEN_FILES,
            },
        ],
        "LogConfig": dict(_LOG_CONFIG),
        "Sysctls": dict(_NETWORK_SYSCTLS) if has_ipv6 else {},
    }


def bind_mount(source: str, target: str, *, writable: bool = False) -> Mapping[str, object]:
    """A bind mount of one file or folder, without the mounts below it."""
    return {
        "Type": "bind",
        "Source": source,
        "Target": target,
        "ReadOnly": not writable,
        # Mounts below were not named by the user, and would stay writable under a read-only mount.
        "BindOptions": {"Propagation": "rprivate", "NonRecursive": True},
    }


def network_config(network: str, address: str) -> Mapping[str, object]:
    """The NetworkingConfig for one address in one network."""
    return {"EndpointsConfig": {network: {"IPAMConfig": {"IPv4Address": address}}}}
