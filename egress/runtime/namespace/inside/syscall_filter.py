"""The seccomp filter of every command in a sandbox. Pure.

Namespaces and missing capabilities isolate the sandbox. The filter removes attack surface behind them, and
resources that no namespace limits:

- sockets other than unix, IPv4, IPv6 and the netlink that lists interfaces. AF_VSOCK reaches the hypervisor
  past every network; AF_PACKET, AF_ALG and the rest are old code without a use here;
- further namespaces, in which a user has every capability: unshare, setns, clone with a namespace flag.
  clone3 hides its flags from filters, so it returns ENOSYS: libraries fall back to clone;
- mounts, by the old and the new system calls;
- keyrings (keyctl, add_key, request_key), which processes of one user share across namespaces;
- bpf, perf_event_open, userfaultfd, io_uring: large, with many past holes. io_uring also opens sockets that
  no filter sees;
- settings of the machine: modules, kexec, reboot, swap, quota, accounting, clocks, kernel log, host names,
  files by handle;
- injecting input into a terminal (TIOCSTI, TIOCLINUX);
- extended attributes (setxattr and its like), because they include access control lists: each ties up 64 KiB
  of kernel memory that no limit counts, with no bound but the number of files.

ptrace stays, for debuggers: only processes of the sandbox are visible, and tracing init needs more
capabilities. Programs of another word size (32 bit) are killed.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_LOAD_OP: Final = 0x20
_JUMP_EQUAL_OP: Final = 0x15
_JUMP_AT_LEAST_OP: Final = 0x35
_JUMP_HAS_BITS_OP: Final = 0x45
_RETURN_OP: Final = 0x06
_ALLOW_ACTION: Final = 0x7FFF0000
_KILL_ACTION: Final = 0x80000000
_ERROR_ACTION: Final = 0x00050000
_CALL_NUMBER_OFFSET: Final = 0
_MACHINE_OFFSET: Final = 4
_X32_BIT: Final = 0x40000000

_NAMESPACE_FLAGS: Final = 0x7E020080
"""CLONE_NEWNS and all later CLONE_NEW flags."""
_TYPING_IOCTLS: Final = (0x5412, 0x541C)
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_ALLOWED_PROTOCOLS: Final = (0, 1, 6, 17, 58, 262)
"""Default, ICMP, TCP, UDP, ICMPv6, MPTCP."""

_COMMON_CALLS: Final[Mapping[str, int]] = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "setxattrat": 463,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "open_tree_attr": 467,
}
_CALL_NAMES: Final = (
    *("clone", "socket", "ioctl", "mount", "umount2", "pivot_root", "setns", "unshare", "bpf"),
    *("perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key", "kexec_load", "kexec_file_load"),
    *("init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff", "quotactl", "acct"),
    *("settimeofday", "clock_settime", "syslog", "sethostname", "setdomainname", "vhangup"),
    *("open_by_handle_at", "lookup_dcookie", "setxattr", "lsetxattr", "fsetxattr"),
)
_X86_NUMBERS: Final = (
    *(56, 41, 16, 165, 166, 155, 308, 272, 321),
    *(298, 323, 250, 248, 249, 246, 320),
    *(175, 313, 176, 169, 167, 168, 179, 163),
    *(164, 227, 103, 170, 171, 153),
    *(304, 212, 188, 189, 190),
)
_ARM_NUMBERS: Final = (
    *(220, 198, 29, 40, 39, 41, 268, 97, 280),
    *(241, 282, 219, 217, 218, 104, 294),
    *(105, 273, 106, 142, 224, 225, 60, 89),
    *(170, 112, 116, 161, 162, 58),
    *(265, 18, 5, 6, 7),
)
_ENOSYS_CALLS: Final = frozenset({"clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"})
"""Reported as missing, so that libraries fall back to older calls."""
_ENOTSUP_CALLS: Final = frozenset({"setxattr", "lsetxattr", "fsetxattr", "setxattrat"})
"""Reported as unsupported by the file system, so that programs copy files without attributes."""


@dataclass(frozen=True, slots=True)
class _Machine:
    name: int
    calls: Mapping[str, int]
    has_x32: bool


MACHINE_FILTERS: Final[Mapping[str, _Machine]] = {
    "x86_64": _Machine(
        0xC000003E, {**_COMMON_CALLS, **dict(zip(_CALL_NAMES, _X86_NUMBERS, strict=True))}, has_x32=True
    ),
    "aarch64": _Machine(
        0xC00000B7, {**_COMMON_CALLS, **dict(zip(_CALL_NAMES, _ARM_NUMBERS, strict=True))}, has_x32=False
    ),
}
"""By machine name; other machines are not supported."""

_Block = tuple[bytes, ...]


def filter_program(machine: str) -> bytes:
    """The filter for a machine. Raises `KeyError` for an unsupported one."""
    found = MACHINE_FILTERS[machine]
    calls = found.calls
    # The machine first: call numbers mean different calls on another machine.
    parts: list[bytes] = [
        _load(_MACHINE_OFFSET),
        *_unless(found.name, (_return(_KILL_ACTION),)),
        _load(_CALL_NUMBER_OFFSET),
    ]
    if found.has_x32:
        parts += [_jump(_JUMP_AT_LEAST_OP, _X32_BIT, 0, 1), _refused(errno.ENOSYS)]
    # Calls with arguments to inspect come before the calls that are refused outright.
    parts += _when(
        calls["clone"],
        (_load_argument(0), _jump(_JUMP_HAS_BITS_OP, _NAMESPACE_FLAGS, 0, 1), _refused(errno.EPERM)),
    )
    parts += _when(calls["ioctl"], (_load_argument(1), *_when_any(_TYPING_IOCTLS, _refused(errno.EPERM))))
    parts += _when(calls["socket"], _sockets())
    for name, number in calls.items():
        if name not in ("clone", "ioctl", "socket"):
            parts += _when(number, (_refused(_error(name)),))
    return b"".join((*parts, _return(_ALLOW_ACTION)))


def _error(name: str) -> int:
    if name in _ENOSYS_CALLS:
        return errno.ENOSYS
    return errno.EOPNOTSUPP if name in _ENOTSUP_CALLS else errno.EPERM


def _sockets() -> _Block:
    internet = (
        _load_argument(2),
        *_when_any(_ALLOWED_PROTOCOLS, _return(_ALLOW_ACTION)),
        _refused(errno.EPROTONOSUPPORT),
    )
    netlink = (_load_argument(2), *_when(0, (_return(_ALLOW_ACTION),)), _refused(errno.EPERM))
    return (
        _load_argument(0),
        *_when(_UNIX, (_return(_ALLOW_ACTION),)),
        *_when(_INET, internet),
        *_when(_INET6, internet),
        *_when(_NETLINK, netlink),
        _refused(errno.EAFNOSUPPORT),
    )


def _when(value: int, block: _Block) -> _Block:
    """The block if the loaded value matches. Every block ends in a return."""
    return (_jump(_JUMP_EQUAL_OP, value, 0, len(block) + (not _returns(block))), *block, *_close_block(block))


def _close_block(block: _Block) -> _Block:
    # A block that loaded another argument must not fall through: the next check expects the call number.
    return () if _returns(block) else (_return(_ALLOW_ACTION),)


def _returns(block: _Block) -> bool:
    code = struct.unpack("=HBBI", block[-1])[0]
    jumps_over = len(block) > 1 and struct.unpack("=HBBI", block[-2])[0] in (
        _JUMP_EQUAL_OP,
        _JUMP_HAS_BITS_OP,
    )
    return code == _RETURN_OP and not jumps_over


def _when_any(values: tuple[int, ...], found: bytes) -> _Block:
    return tuple(each for value in values for each in (_jump(_JUMP_EQUAL_OP, value, 0, 1), found))


def _unless(value: int, block: _Block) -> _Block:
    return (_jump(_JUMP_EQUAL_OP, value, len(block), 0), *block)


def _load(offset: int) -> bytes:
    return struct.pack("=HBBI", _LOAD_OP, 0, 0, offset)


def _load_argument(number: int) -> bytes:
    # The lower half: flags and numbers are there on both supported, little-endian machines.
    return _load(16 + 8 * number)


def _jump(code: int, value: int, when: int, otherwise: int) -> bytes:
    return struct.pack("=HBBI", code, when, otherwise, value)


def _return(value: int) -> bytes:
    return struct.pack("=HBBI", _RETURN_OP, 0, 0, value)


def _refused(number: int) -> bytes:
    return _return(_ERROR_ACTION | number)
