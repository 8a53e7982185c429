"""A second host: a network namespace that a wire joins to this machine, and nothing else.

Only root makes one that this machine can be reached from, so tests with it are root's.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SecondHost:
    """The names and addresses of both ends of the wire."""

    name: str
    address: str
    """The address of the second host."""
    ours: str
    """The address of this machine, as the second host sees it."""

    def run(
        self, words: Sequence[str], folder: Path, env: Mapping[str, str] | None = None, given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a program there, in a folder of its own."""
        around = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **(env or {})}
        return subprocess.run(
            ("ip", "netns", "exec", self.name, *words),
            cwd=folder,
            env=around,
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@contextmanager
def second_host() -> Iterator[SecondHost]:
    """The host, until the end of the block: its network goes with its wire."""
    name, wire = f"egress-{os.getpid()}", f"egr{os.getpid()}"[:15]
    # A network of its own: other workers of the tests have such a host, too.
    network = f"10.{64 + os.getpid() // 256 % 64}.{os.getpid() % 256}"
    found = SecondHost(name, f"{network}.2", f"{network}.1")
    _ip("netns", "add", name)
    try:
        _ip("link", "add", wire, "type", "veth", "peer", "name", "wan", "netns", name)
        _ip("addr", "add", f"{found.ours}/30", "dev", wire)
        _ip("link", "set", wire, "up")
        _ip("-n", name, "addr", "add", f"{found.address}/30", "dev", "wan")
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "link", "set", "wan", "up")
        yield found
    finally:
        _ip("netns", "delete", name)


def _ip(*words: str) -> None:
    subprocess.run(("ip", *words), check=True, capture_output=True, timeout=30)
