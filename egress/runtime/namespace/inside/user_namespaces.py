"""The two user namespaces of a sandbox, one in the other.

The outer one owns its network, its mounts and its processes: root there can set them up, and is nobody
outside. Commands run in the inner one, which owns nothing, under the user that was asked for. So not even
root of the inner one has a right over anything, and nobody in it can make another namespace.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from egress.runtime.namespace.inside import kernel

_USER_NAMESPACE_FLAG: Final = 0x10000000
_OUTER_LIMITS: Final[Mapping[str, str]] = {
    "max_user_namespaces": "0",
    # Counted for the user outside as well, who has 128: without a bound of its own a sandbox takes all of
    # them from other sandboxes, and from whoever else that user is.
    "max_inotify_instances": "32",
    "max_inotify_watches": "65536",
    "max_fanotify_groups": "8",
    "max_fanotify_marks": "8192",
}
"""What the inner namespace may have of each, by names in /proc/sys/user."""


@dataclass(frozen=True, slots=True)
class InnerUser:
    """Who a command is: inside, and in the outer namespace."""

    user: int
    group: int
    outer: int


def enter(others: int, maps: Sequence[str]) -> None:
    """Make the outer namespace, and others in it, and go there as its root.

    `maps` says who its users are outside, users and groups; that takes rights. Without it there is one: who
    calls. Raises `OSError`.
    """
    if maps:
        _enter_mapped(others, maps)
        return
    user, group = os.geteuid(), os.getegid()
    os.unshare(_USER_NAMESPACE_FLAG | others)
    kernel.be_readable(by_others=True)
    kernel.write("/proc/self/setgroups", "deny")
    kernel.write("/proc/self/uid_map", f"0 {user} 1")
    kernel.write("/proc/self/gid_map", f"0 {group} 1")


def _enter_mapped(others: int, maps: Sequence[str]) -> None:
    kernel.drop_groups()
    mine = os.getpid()
    hears, tells = os.pipe()
    helper = os.fork()
    if helper == 0:
        try:
            os.close(tells)
            if os.read(hears, 1):
                kernel.write(f"/proc/{mine}/uid_map", maps[0])
                kernel.write(f"/proc/{mine}/gid_map", maps[1])
                os._exit(0)
        finally:
            os._exit(1)
    try:
        os.unshare(_USER_NAMESPACE_FLAG | others)
        os.write(tells, b"x")
    finally:
        os.close(tells)
        os.close(hears)
        _, status = os.waitpid(helper, 0)
    if status:
        raise PermissionError(1, "the users of the namespace cannot be set")
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    kernel.be_readable(by_others=True)


def inner(who: InnerUser) -> int:
    """The inner namespace: a descriptor of it. Called in the outer one, as its root."""
    hears, tells = os.pipe()
    waits, goes = os.pipe()
    helper = os.fork()
    if helper == 0:
        try:
            os.unshare(_USER_NAMESPACE_FLAG)
            os.write(tells, b"x")
            os.close(goes)
            if os.read(waits, 1):
                _set_outer_limits()
                os._exit(0)
        finally:
            os._exit(1)
    os.close(tells)
    os.close(waits)
    try:
        if not os.read(hears, 1):
            raise PermissionError(1, "no namespace for commands can be made")
        kernel.write(f"/proc/{helper}/uid_map", f"{who.user} {who.outer} 1")
        kernel.write(f"/proc/{helper}/gid_map", f"{who.group} {who.outer} 1")
        found = os.open(f"/proc/{helper}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        os.write(goes, b"x")
    except OSError:
        os.kill(helper, signal.SIGKILL)
        raise
    finally:
        os.close(goes)
        os.close(hears)
        _, status = os.waitpid(helper, 0)
    if status:
        raise PermissionError(1, "further namespaces cannot be kept away")
    return found


def _set_outer_limits() -> None:
    for name, most in _OUTER_LIMITS.items():
        path = f"/proc/sys/user/{name}"
        # Older kernels count less.
        if name == "max_user_namespaces" or os.path.exists(path):  # noqa: PTH110
            kernel.write(path, most)


def checked_freezer(file: int) -> int:
    """The same descriptor, where a process can be taken into that group by it; else -1."""
    if file < 0:
        return -1
    helper = os.fork()
    if helper == 0:
        try:
            os.write(file, b"0")
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(helper, 0)
    return -1 if status else file
