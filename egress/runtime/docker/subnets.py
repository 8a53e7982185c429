"""Which addresses the network of a sandbox gets.

Small ones out of a range that is reserved for tests of network devices (RFC 2544): no host of anybody has an
address there. The machine itself gets no address and no route in them, so they may be used by others as well;
only an address of the machine must not lie among them. It could answer for the gateway that there is not.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

from egress.runtime.errors import EngineError

POOL: Final = IPv4Network("198.18.0.0/15")
SIZE: Final = 29
_LOCAL: Final = Path("/proc/net/fib_trie")


@dataclass(frozen=True, slots=True)
class Addresses:
    """Of one network."""

    subnet: IPv4Network

    @property
    def door(self) -> IPv4Address:
        # The first one is that of the gateway, which nobody has.
        return self.subnet[2]

    @property
    def sandbox(self) -> IPv4Address:
        return self.subnet[3]


def free(taken: Iterable[IPv4Network], pool: IPv4Network = POOL) -> Iterator[Addresses]:
    """Networks that overlap with none of these. They begin anywhere, so that two who look rarely meet."""
    there = list(taken)
    count = 1 << (SIZE - pool.prefixlen)
    start = secrets.randbelow(count)
    step = 1 << (32 - SIZE)
    for turn in range(count):
        first = int(pool.network_address) + (start + turn) % count * step
        subnet = IPv4Network((first, SIZE))
        if not any(subnet.overlaps(other) for other in there):
            yield Addresses(subnet)
    raise EngineError("no addresses are left for another sandbox", "remove some")


def of_machine(path: Path = _LOCAL) -> list[IPv4Network]:
    """The addresses of this machine, each as a network of one. Raises `EngineError`."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise EngineError(
            "the addresses of this machine cannot be read", f"{path} is needed for it"
        ) from error
    found = set()
    address = ""
    for line in lines:
        text = line.strip()
        if text.startswith("|-- "):
            address = text.removeprefix("|-- ")
        elif text.startswith("/32 host LOCAL"):
            found.add(IPv4Network(address))
    return sorted(found)
