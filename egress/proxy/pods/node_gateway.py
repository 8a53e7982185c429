"""The next hop out of this pod: an address of its node, behind which any pod may be.

A cluster that rewrites source addresses uses it, and no object of the API names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

_IPV4_ROUTES = Path("/proc/net/route")
_IPV6_ROUTES = Path("/proc/net/ipv6_route")
_ANY_IPV4 = "00000000"
_ANY_IPV6 = "0" * 32


def read_gateways(
    ipv4: Path = _IPV4_ROUTES, ipv6: Path = _IPV6_ROUTES
) -> tuple[IPv4Network | IPv6Network, ...]:
    """Return the default gateways of this network; none where the kernel names none."""
    return (
        *map(IPv4Network, _ipv4_gateways(_rows(ipv4)[1:])),
        *map(IPv6Network, _ipv6_gateways(_rows(ipv6))),
    )


def _ipv4_gateways(rows: Iterable[list[str]]) -> list[IPv4Address]:
    # Interface, destination, gateway, ...: numbers of the machine's byte order, which is little-endian.
    found = [row[2] for row in rows if len(row) > 7 and row[1] == _ANY_IPV4 and row[2] != _ANY_IPV4]
    return [IPv4Address(bytes.fromhex(each)[::-1]) for each in found]


def _ipv6_gateways(rows: Iterable[list[str]]) -> list[IPv6Address]:
    # Destination, its prefix, source, its prefix, next hop, ...
    found = [row[4] for row in rows if len(row) > 8 and row[1] == "00" and row[4] != _ANY_IPV6]
    return [IPv6Address(bytes.fromhex(each)) for each in found]


def _rows(path: Path) -> list[list[str]]:
    try:
        return [line.split() for line in path.read_text("ascii").splitlines()]
    except (OSError, UnicodeDecodeError):
        # Without that protocol.
        return []
