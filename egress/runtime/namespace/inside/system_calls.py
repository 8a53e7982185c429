"""Linux system calls that Python lacks: mounts, capabilities, process settings.

Each raises `OSError`. This module decides nothing.
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

# Newer system calls have the same number on every architecture; `pivot_root` has not.
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
    # Explicit C types: by itself, ctypes would pass a number in 32 bits.
    passed = [ctypes.c_long(each) if isinstance(each, int) else ctypes.c_char_p(each) for each in arguments]
    return _check_result(_libc.syscall(ctypes.c_long(number), *passed))


def open_tree(path: str, *, recursive: bool) -> int:
    """Clone the mount at a path, unattached; returns its descriptor."""
    return _opened(_AT_FDCWD, path, 0, recursive=recursive)


def open_tree_of(place: int, *, recursive: bool) -> int:
    """Clone the mount at a descriptor, unattached; returns its descriptor."""
    return _opened(place, "", _AT_EMPTY_PATH, recursive=recursive)


def _opened(place: int, path: str, more: int, *, recursive: bool) -> int:
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | more | (_AT_RECURSIVE if recursive else 0)
    return _syscall(_OPEN_TREE, place, os.fsencode(path), flags)


def restrict(tree: int, attributes: int) -> None:
    """Set attributes of a mount and the mounts below it."""
    _set_attributes(tree, b"", _AT_EMPTY_PATH | _AT_RECURSIVE, attributes)


def restrict_path(path: str, attributes: int) -> None:
    """Set attributes of the mount at a path, without the mounts below it."""
    _set_attributes(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, attributes)


def _set_attributes(folder: int, path: bytes, flags: int, attributes: int) -> None:
    # The second word, of attributes to clear, stays 0: no restriction is ever lifted here.
    packed = ctypes.create_string_buffer(struct.pack("=4Q", attributes, 0, 0, 0), 32)
    address = ctypes.addressof(packed)
    _syscall(_MOUNT_SETATTR, folder, path, flags, address, 32)


def attach(tree: int, path: str) -> None:
    """Attach a mount at a path; a symlink there is not followed."""
    _syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(path), _MOVE_MOUNT_EMPTY_PATH)


def mount(kind: str, path: str, options: str = "", flags: tuple[str, ...] = ("nosuid", "nodev")) -> None:
    """Mount a new file system without a device."""
    number = sum(_MOUNT_FLAGS[each] for each in flags)
    name = os.fsencode(kind)
    _check_result(
        _libc.mount(name, os.fsencode(path), name, ctypes.c_ulong(number), os.fsencode(options) or None)
    )


def keep_mounts_private() -> None:
    """Keep mount events from propagating in both directions."""
    _check_result(_libc.mount(None, b"/", None, ctypes.c_ulong(_MS_PRIVATE_ALL), None))


def detach(path: str) -> None:
    """Detach a mount, and the mounts below it."""
    _check_result(_libc.umount2(os.fsencode(path), _UMOUNT_DETACH))


def pivot_root(new: str, old: str) -> None:
    """Make a mount the root, and attach the old root at a path below it."""
    _syscall(_PIVOT_ROOT[os.uname().machine], os.fsencode(new), os.fsencode(old))


def be_readable(*, by_others: bool) -> None:
    """Let processes of the same user inspect this one, and let it own its files in /proc; or forbid both."""
    _prctl(_SET_DUMPABLE, int(by_others))


def close_on_exec(first: int) -> None:
    """Keep programs from inheriting any descriptor from this number on."""
    _syscall(_CLOSE_RANGE, first, 0x7FFFFFFF, _CLOSE_RANGE_CLOEXEC)


def be_reaper() -> None:
    """Become the parent of orphaned descendants."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def write(path: str, text: str) -> None:
    """Write to a kernel file, in one call."""
    # The kernel judges each write by itself, so a text must not be split.
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def forget_capabilities() -> None:
    """Empty the bounding set: no later program can gain a capability."""
    for number in range(_MAX_CAPABILITIES):
        try:
            _prctl(_CAPBSET_DROP, number)
        except OSError:
            # The kernel has no further capabilities.
            if number == 0:
                raise
            break


def drop_capabilities() -> None:
    """Drop all capabilities of this process."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    # Zeros for the effective, permitted and inheritable sets of all capabilities.
    _check_result(_libc.capset(header, bytes(24)))


def filter_calls(program: bytes) -> None:
    """Install a seccomp filter, and forbid gaining privileges through exec."""
    # Without this, a filter takes privileges, and a setuid program could gain new ones.
    _prctl(_NO_NEW_PRIVS, 1)
    # Named until the call returns: the kernel reads the program through its address.
    held = ctypes.create_string_buffer(program, len(program))
    count = len(program) // 8
    head = struct.pack("=HxxxxxxQ", count, ctypes.addressof(held))
    packed = ctypes.create_string_buffer(head, len(head))
    _prctl(_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(packed))


def _prctl(*arguments: int) -> None:
    _check_result(_libc.prctl(*(ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:5])))


def drop_groups() -> None:
    """Leave all supplementary groups. A namespace made by an unprivileged user does not allow it."""
    with suppress(PermissionError):
        os.setgroups([])


def reaped() -> Iterator[tuple[int, int]]:
    """Number and status of each child that has ended by now."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            # A child that asks to be traced (PTRACE_TRACEME) makes this process its tracer, which is told of
            # its stops, too. Such a child has not ended.
            if not os.WIFSTOPPED(ended[1]):
                yield ended
