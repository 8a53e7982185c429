"""The two user namespaces of a sandbox, one inside the other.

The outer one owns the network, mounts and processes: its root can set them up, and is unprivileged outside.
Commands run in the inner one, which owns nothing, as the requested user. So even root of the inner namespace
has no rights over the sandbox's resources, and no command can create another namespace.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from egress.runtime.namespace.inside import system_calls

_USER_NAMESPACE_FLAG: Final = 0x10000000
_OUTER_LIMITS: Final[Mapping[str, str]] = {
    "max_user_namespaces": "0",
    # The kernel counts these for the user outside as well, whose limit is 128: without a limit of its own, a
    # sandbox takes all from other sandboxes and from the user's other programs.
    "max_inotify_instances": "32",
    "max_inotify_watches": "65536",
    "max_fanotify_groups": "8",
    "max_fanotify_marks": "8192",
}
"""The limits of the inner namespace, by file name in /proc/sys/user."""


@dataclass(frozen=True, slots=True)
class InnerUser:
    """The user of a command: inside, and in the outer namespace."""

    user: int
    group: int
    outer: int


def enter(flags: int, maps: Sequence[str]) -> None:
    """Create the outer user namespace, with further namespaces, and become its root.

    `maps` holds its user and group maps, which takes privileges. Without maps, only the calling user is
    mapped. Raises `OSError`.
    """
    if maps:
        _enter_mapped(flags, maps)
        return
    user, group = os.geteuid(), os.getegid()
    os.unshare(_USER_NAMESPACE_FLAG | flags)
    system_calls.be_readable(by_others=True)
    # The kernel demands "deny" before an unprivileged process may write a group map.
    system_calls.write("/proc/self/setgroups", "deny")
    system_calls.write("/proc/self/uid_map", f"0 {user} 1")
    system_calls.write("/proc/self/gid_map", f"0 {group} 1")


def _enter_mapped(flags: int, maps: Sequence[str]) -> None:
    # A helper outside of the namespace writes the maps: only a process of the parent namespace may.
    system_calls.drop_groups()
    mine = os.getpid()
    hears, tells = os.pipe()
    helper = os.fork()
    if helper == 0:
        try:
            os.close(tells)
            # The end without a byte means that `unshare` failed: no map is written then.
            if os.read(hears, 1):
                system_calls.write(f"/proc/{mine}/uid_map", maps[0])
                system_calls.write(f"/proc/{mine}/gid_map", maps[1])
                os._exit(0)
        finally:
            os._exit(1)
    try:
        os.unshare(_USER_NAMESPACE_FLAG | flags)
        os.write(tells, b"x")
    finally:
        os.close(tells)
        os.close(hears)
        _, status = os.waitpid(helper, 0)
    if status:
        raise PermissionError(1, "the users of the namespace cannot be set")
    # Only now: before the maps exist, every id in the namespace is the overflow id.
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    system_calls.be_readable(by_others=True)


def inner(user: InnerUser) -> int:
    """Create the inner namespace; returns a descriptor of it. Called in the outer one, as its root."""
    # A helper process enters the namespace and stays until its maps are written: a namespace needs a member.
    hears, tells = os.pipe()
    waits, goes = os.pipe()
    helper = os.fork()
    if helper == 0:
        try:
            os.unshare(_USER_NAMESPACE_FLAG)
            os.write(tells, b"x")
            os.close(goes)
            # The end without a byte means that the maps failed: the helper reports it by its status.
            if os.read(waits, 1):
                _set_outer_limits()
                os._exit(0)
        finally:
            os._exit(1)
    os.close(tells)
    os.close(waits)
    try:
        # Maps can be written only after `unshare`, so the byte of the helper is awaited.
        if not os.read(hears, 1):
            raise PermissionError(1, "no namespace for commands can be made")
        system_calls.write(f"/proc/{helper}/uid_map", f"{user.user} {user.outer} 1")
        system_calls.write(f"/proc/{helper}/gid_map", f"{user.group} {user.outer} 1")
        # Opened while the helper lives: from here on the descriptor keeps the namespace alive.
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
    for name, limit in _OUTER_LIMITS.items():
        path = f"/proc/sys/user/{name}"
        # Older kernels lack some of these limits.
        if name == "max_user_namespaces" or os.path.exists(path):  # noqa: PTH110
            system_calls.write(path, limit)


def checked_freezer(file: int) -> int:
    """The same descriptor if a process can join the group by it; else -1."""
    if file < 0:
        return -1
    # Tried in a helper, because a success moves the writer into the group.
    helper = os.fork()
    if helper == 0:
        try:
            os.write(file, b"0")
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(helper, 0)
    return -1 if status else file
