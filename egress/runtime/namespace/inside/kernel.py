"""Calls of the Linux kernel that Python has no function for: mounts, capabilities, process settings.

Each raises `OSError`. It decides nothing.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

READ_ONLY: Final = 1
NO_SUID: Final = 2
NO_DEVICES: Final = 4
NO_PROGRAMS: Final = 8

_CLOSE_RANGE: Final = 436
_CLOSE_RANGE_CLOEXEC: Final = 4
_OPEN_TREE: Final = 428
_MOVE_MOUNT: Final = 429
_MOUNT_SETATTR: Final = 442
_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}
_AT_FDCWD: Final = -100
_OPEN_TREE_CLONE: Final = 1
_AT_RECURSIVE: Final = 0x8000
_AT_EMPTY_PATH: Final = 0x1000
_AT_SYMLINK_NOFOLLOW: Final = 0x100
_MOVE_MOUNT_EMPTY_PATH: Final = 4

_MOUNT_FLAGS: Final = {"nosuid": 2, "nodev": 4, "noexec": 8}
_MS_PRIVATE_ALL: Final = (1 << 18) | (1 << 14)
_UMOUNT_DETACH: Final = 2

_SET_DUMPABLE: Final = 4
_CAPBSET_DROP: Final = 24
_SET_CHILD_SUBREAPER: Final = 36
_NO_NEW_PRIVS: Final = 38
_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2
_MAX_CAPABILITIES: Final = 64
_CAPABILITY_VERSION: Final = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def _check_result(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _syscall(number: int, *arguments: int | bytes) -> int:
    passed = [ctypes.c_long(each) if isinstance(each, int) else ctypes.c_char_p(each) for each in arguments]
    return _check_result(_libc.syscall(ctypes.c_long(number), *passed))


def open_tree(path: str, *, recursive: bool) -> int:
    """A mount of its own of what is at a path, attached nowhere: its descriptor."""
    return _opened(_AT_FDCWD, path, 0, recursive=recursive)


def open_tree_of(place: int, *, recursive: bool) -> int:
    """The same of what a descriptor means."""
    return _opened(place, "", _AT_EMPTY_PATH, recursive=recursive)


def _opened(place: int, path: str, more: int, *, recursive: bool) -> int:
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | more | (_AT_RECURSIVE if recursive else 0)
    return _syscall(_OPEN_TREE, place, os.fsencode(path), flags)


def restrict(tree: int, attributes: int) -> None:
    """Bound what can be done by a mount, and by those below it."""
    _set_attributes(tree, b"", _AT_EMPTY_PATH | _AT_RECURSIVE, attributes)


def restrict_path(path: str, attributes: int) -> None:
    """Bound what can be done by the mount at a path, and not by those below it."""
    _set_attributes(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, attributes)


def _set_attributes(folder: int, path: bytes, flags: int, attributes: int) -> None:
    packed = ctypes.create_string_buffer(struct.pack("=4Q", attributes, 0, 0, 0), 32)
    address = ctypes.addressof(packed)
    _syscall(_MOUNT_SETATTR, folder, path, flags, address, 32)


def attach(tree: int, path: str) -> None:
    """Let a mount be seen at a path, which is not followed if it is a link."""
    _syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(path), _MOVE_MOUNT_EMPTY_PATH)


def mount(kind: str, path: str, options: str = "", flags: tuple[str, ...] = ("nosuid", "nodev")) -> None:
    """Mount a file system that is made of nothing."""
    number = sum(_MOUNT_FLAGS[each] for each in flags)
    name = os.fsencode(kind)
    _check_result(
        _libc.mount(name, os.fsencode(path), name, ctypes.c_ulong(number), os.fsencode(options) or None)
    )


def keep_mounts_private() -> None:
    """From now on nothing that is mounted here is seen elsewhere, nor the other way round."""
    _check_result(_libc.mount(None, b"/", None, ctypes.c_ulong(_MS_PRIVATE_ALL), None))


def detach(path: str) -> None:
    """Let a mount, and those below it, be seen no longer."""
    _check_result(_libc.umount2(os.fsencode(path), _UMOUNT_DETACH))


def pivot_root(new: str, old: str) -> None:
    """Make one mount the root, and let the root that was be seen at a path below it."""
    _syscall(_PIVOT_ROOT[os.uname().machine], os.fsencode(new), os.fsencode(old))


def be_readable(*, by_others: bool) -> None:
    """Let this process be looked into by others of its user, and have its own files in /proc; or not."""
    _prctl(_SET_DUMPABLE, int(by_others))


def close_on_exec(first: int) -> None:
    """Let no program inherit any descriptor from this one on."""
    _syscall(_CLOSE_RANGE, first, 0x7FFFFFFF, _CLOSE_RANGE_CLOEXEC)


def be_reaper() -> None:
    """Be the parent of those whose parents end."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def write(path: str, text: str) -> None:
    """Write to a file of the kernel, in one piece."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def forget_capabilities() -> None:
    """Let no program that comes later get any."""
    for number in range(_MAX_CAPABILITIES):
        try:
            _prctl(_CAPBSET_DROP, number)
        except OSError:
            # The kernel knows no more of them.
            if number == 0:
                raise
            break


def drop_capabilities() -> None:
    """Have none."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    _check_result(_libc.capset(header, bytes(24)))


def filter_calls(program: bytes) -> None:
    """Let a filter decide on every call from now on, and no program have more rights than this one."""
    _prctl(_NO_NEW_PRIVS, 1)
    held = ctypes.create_string_buffer(program, len(program))
    count = len(program) // 8
    head = struct.pack("=HxxxxxxQ", count, ctypes.addressof(held))
    packed = ctypes.create_string_buffer(head, len(head))
    _prctl(_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(packed))


def _prctl(*arguments: int) -> None:
    _check_result(_libc.prctl(*(ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:5])))


def drop_groups() -> None:
    """Be in no group but one. In a namespace that a user without rights made, that is not to be had."""
    with suppress(PermissionError):
        os.setgroups([])


def reaped() -> Iterator[tuple[int, int]]:
    """Number and status of each child that has ended by now."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended
