"""Sets up the network of a sandbox: loopback, with one more address for the door.

Called in the network namespace, once, before any other process runs there.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from contextlib import suppress
from typing import Final

from egress.runtime.namespace.inside import system_calls

_SET_FLAGS_IOCTL: Final = 0x8914
_SET_ADDRESS_IOCTL: Final = 0x8916
_SET_MASK_IOCTL: Final = 0x891C
_UP_FLAGS: Final = 0x1 | 0x40
_LOOPBACK_NAME: Final = b"lo"
_DOOR_ALIAS_NAME: Final = b"lo:door"
_IPV6_SETTING_PATH: Final = "/proc/sys/net/ipv6/conf/%s/disable_ipv6"
_LOW_PORTS_PATH: Final = "/proc/sys/net/ipv4/ip_unprivileged_port_start"


def prepare(address: str) -> None:
    """Bring loopback up without IPv6, and add the door's address. Raises `OSError`."""
    for name in ("all", "default", "lo"):
        # A kernel without IPv6 lacks the files.
        with suppress(FileNotFoundError):
            system_calls.write(_IPV6_SETTING_PATH % name, "1")
    system_calls.write(_LOW_PORTS_PATH, "0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SET_FLAGS_IOCTL, struct.pack("16sh22x", _LOOPBACK_NAME, _UP_FLAGS))
        fcntl.ioctl(sock, _SET_ADDRESS_IOCTL, _with_address(address))
        fcntl.ioctl(sock, _SET_MASK_IOCTL, _with_address("255.255.255.255"))


def _with_address(address: str) -> bytes:
    packed = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
    return struct.pack("16s16s8x", _DOOR_ALIAS_NAME, packed)
