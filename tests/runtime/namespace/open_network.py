"""Runs in a network of its own that has no wall: what a sandbox could reach is there, and the probe with it.

It is the good twin of what this machine has not: an internet, a service for metadata, a name for the host.
What the probe cannot reach here either proves nothing. It is begun by `unshare -Urnm`, and says what the
probe says.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.runtime import escape_probe, fake_internet

INTERNET: Final = "192.0.2.1"
METADATA: Final = "169.254.169.254"
HOST: Final = "host.docker.internal"

_SET_FLAGS, _SET_ADDRESS = 0x8914, 0x8916


def main() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SET_FLAGS, struct.pack("16sh22x", b"lo", 0x41))
        for number, address in enumerate((INTERNET, METADATA)):
            packed = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(sock, _SET_ADDRESS, struct.pack("16s16s8x", b"lo:%d" % number, packed))
    Path("/proc/sys/net/ipv4/ping_group_range").write_text("0 0", encoding="ascii")
    with tempfile.NamedTemporaryFile("w", suffix=".hosts") as hosts:
        hosts.write(f"{INTERNET} {HOST}\n")
        hosts.flush()
        subprocess.run(["mount", "--bind", hosts.name, "/etc/hosts"], check=True)
        fake_internet.open_all()
        escape_probe.main()
        sys.stdout.flush()


if __name__ == "__main__":
    main()
