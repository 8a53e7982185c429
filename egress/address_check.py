"""Decide which IP addresses may be dialled.

Theory of operation. An address has one or more *readings*: itself, and every IPv4 address that a transition
scheme packs into it (mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP), because a device on the
way may unpack it. Each reading is looked up in one sorted table per family that covers the whole number
space, so every address has an answer; in IPv6 only expressly global unicast is public. One refused reading
refuses the address.

A rule may open ranges by name (`addresses:` of a host entry). This is read narrowly: an address that would be
refused passes only if the address *as dialled* lies in an opened range, and so does *every* refused reading.
Opening 10.0.0.0/8 therefore does not open `::ffff:10.0.0.1`; that also needs `::ffff:10.0.0.0/104`. A
metadata service is opened only by its own /32 or /128.

Not known here: a NAT64 prefix chosen by the operator's own network. List it among the own networks, and the
addresses it carries are refused.

Resolves nothing, dials nothing, and never raises: text that is not the canonical spelling of an address is
refused.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
OwnSource = str | Address | IPv4Interface | IPv6Interface | Network

PUBLIC_REASON = "public"
OPENED_REASON = "opened"
MALFORMED_REASON = "malformed"
METADATA_REASON = "metadata"
OWN_REASON = "own"


@dataclass(frozen=True, slots=True)
class AddressClassification:
    """The answer for an address, and the stable reason that the audit log shows.

    `reason` is `public` or `opened` if it may be dialled; otherwise `malformed`, `metadata`, `own`, or the
    name of the range of the last refused reading.
    """

    allowed: bool
    reason: str


class OwnNetworks:
    """Addresses and networks of this machine: never dialled for a sandbox, public or not."""

    __slots__ = ("_networks",)

    def __init__(self, sources: Iterable[OwnSource] = ()) -> None:
        """Take addresses, networks or interfaces (`192.0.2.7/24`: the address and its network).

        Raises ValueError for any other text: an own network that is not understood must not be left out.
        """
        ranges: dict[int, list[tuple[int, int]]] = {4: [], 6: []}
        for source in sources:
            network = _network_of(source)
            ranges[network.version].append((int(network.network_address), int(network.broadcast_address)))
        self._networks = {version: tuple(dict.fromkeys(found)) for version, found in ranges.items()}

    def __contains__(self, address: Address) -> bool:
        number = int(address)
        return any(first <= number <= last for first, last in self._networks[address.version])


NO_OWN_NETWORKS = OwnNetworks()


def classify_address(
    address: str | Address, own: OwnNetworks = NO_OWN_NETWORKS, allowed: Iterable[str | Network] = ()
) -> AddressClassification:
    """Decide whether this address may be dialled.

    `address` comes from a resolver: only its canonical spelling is accepted, so that the address checked is
    the address dialled. `allowed` are the ranges that the host entry opens; an unreadable range opens
    nothing. Never raises.
    """
    parsed = _parsed(address)
    if parsed is None:
        return AddressClassification(allowed=False, reason=MALFORMED_REASON)
    refused = [
        (reading, reason)
        for reading in _readings(parsed)
        if (reason := _reason(reading, own)) != PUBLIC_REASON
    ]
    if not refused:
        return AddressClassification(allowed=True, reason=PUBLIC_REASON)
    opened = [network for text in allowed if (network := _opened_range(text)) is not None]
    if _inside(parsed, opened) and all(_is_opened(reading, reason, opened) for reading, reason in refused):
        return AddressClassification(allowed=True, reason=OPENED_REASON)
    # The most deeply packed reading says most: `metadata` rather than `reserved`.
    return AddressClassification(allowed=False, reason=refused[-1][1])


def _parsed(address: object) -> Address | None:
    if isinstance(address, str):
        return _canonical(address) if len(address) <= _LONGEST_TEXT and "%" not in address else None
    if isinstance(address, IPv6Address):
        # A scope names an interface of ours: only local addresses have one.
        return None if address.scope_id is not None else address
    return address if isinstance(address, IPv4Address) else None


@lru_cache(maxsize=4096)
def _canonical(text: str) -> Address | None:
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    if text == str(parsed) or (isinstance(parsed, IPv6Address) and text in _resolver_spellings(parsed)):
        return parsed
    return None


def _resolver_spellings(address: IPv6Address) -> tuple[str, ...]:
    """Return other spellings the C library, or an older Python, writes for an address ending in IPv4."""
    high, low = divmod(int(address), 1 << 32)
    if high == 0xFFFF:
        return f"::ffff:{IPv4Address(low)}", f"::ffff:{low >> 16:x}:{low & 0xFFFF:x}"
    return (f"::{IPv4Address(low)}",) if high == 0 else ()


def _reason(reading: Address, own: OwnNetworks) -> str:
    starts, reasons = _TABLE_4 if isinstance(reading, IPv4Address) else _TABLE_6
    reason = reasons[bisect_right(starts, int(reading)) - 1]
    return OWN_REASON if reason != METADATA_REASON and reading in own else reason


def _readings(address: Address) -> Iterator[Address]:
    """Yield the address itself, then every IPv4 address it carries."""
    yield address
    if isinstance(address, IPv4Address):
        return
    number = int(address)
    # :: and ::1 look like compatible addresses, but are not.
    if number >> 32 in _CARRIERS_LAST_32 and number > 1:
        yield IPv4Address(number & _LOW_32)
    if number >> 112 == _SIX_TO_FOUR_PREFIX:
        yield IPv4Address(number >> 80 & _LOW_32)
    if number >> 96 == _TEREDO_PREFIX:
        # Teredo carries the address of its server plain, and that of its client inverted (RFC 4380).
        yield IPv4Address(number >> 64 & _LOW_32)
        yield IPv4Address(~number & _LOW_32)
    # With and without the two flag bits of an interface identifier.
    if (number >> 32 & _LOW_32) & ~0x0300_0000 == _ISATAP_MARK:
        yield IPv4Address(number & _LOW_32)


def _is_opened(reading: Address, reason: str, opened: list[Network]) -> bool:
    if reason == METADATA_REASON:
        return any(network.num_addresses == 1 and reading in network for network in opened)
    return _inside(reading, opened)


def _inside(address: Address, networks: list[Network]) -> bool:
    return any(address in network for network in networks)


@lru_cache(maxsize=1024)
def _opened_range(text: str | Network) -> Network | None:
    try:
        return ip_network(text)
    except ValueError:
        return None


def _network_of(source: OwnSource) -> Network:
    # Accepts an interface, too, as operating systems list link-local addresses: fe80::1%eth0/64.
    return ip_network(str(source), strict=False)


# The tables -------------------------------------------------------------------------------------

# The longest spelling of an IPv6 address: six groups in full, and IPv4 at its end.
_LONGEST_TEXT = 45
_LOW_32 = 0xFFFF_FFFF

_CARRIERS_LAST_32 = frozenset(
    int(IPv6Address(prefix)) >> 32
    for prefix in (
        "::",  # IPv4-compatible
        "::ffff:0:0",  # IPv4-mapped
        "::ffff:0:0:0",  # IPv4-translated
        "64:ff9b::",  # NAT64
    )
)
_SIX_TO_FOUR_PREFIX = 0x2002
_TEREDO_PREFIX = 0x2001_0000
_ISATAP_MARK = 0x0000_5EFE

# Ranges with their reasons; a later line overrides an earlier one that contains it.
_RANGES_4 = (
    ("0.0.0.0/0", PUBLIC_REASON),
    ("0.0.0.0/8", "this-network"),
    ("0.0.0.0/32", "unspecified"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "cgnat"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "documentation"),
    ("192.88.99.0/24", "reserved"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("255.255.255.255/32", "broadcast"),
    ("169.254.169.254/32", METADATA_REASON),  # AWS, Azure, Google, OpenStack and most others
    ("169.254.170.2/32", METADATA_REASON),  # AWS, credentials of container tasks
    ("169.254.170.23/32", METADATA_REASON),  # AWS, credentials of pods
    ("169.254.0.23/32", METADATA_REASON),  # Tencent
    ("169.254.42.42/32", METADATA_REASON),  # Scaleway
    ("168.63.129.16/32", METADATA_REASON),  # Azure, among public addresses
    ("100.100.100.200/32", METADATA_REASON),  # Alibaba
    ("192.0.0.192/32", METADATA_REASON),  # Oracle
)
_RANGES_6 = (
    ("::/0", "reserved"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    # Public by themselves: these two are judged by the address they carry.
    ("::ffff:0:0/96", PUBLIC_REASON),
    ("64:ff9b::/96", PUBLIC_REASON),
    ("64:ff9b:1::/48", "nat64-local"),
    ("100::/64", "discard"),
    ("2000::/3", PUBLIC_REASON),
    ("2001::/23", "reserved"),
    ("2001::/32", "teredo"),
    ("2001:2::/48", "benchmarking"),
    ("2001:db8::/32", "documentation"),
    ("3fff::/20", "documentation"),
    ("fc00::/7", "ula"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
    ("fd00:ec2::254/128", METADATA_REASON),  # AWS
    ("fd00:ec2::23/128", METADATA_REASON),  # AWS, credentials of pods
    ("fd20:ce::254/128", METADATA_REASON),  # Google
    ("fd00:42::42/128", METADATA_REASON),  # Scaleway
    ("fe80::a9fe:a9fe/128", METADATA_REASON),  # OpenStack
)


def _table(ranges: tuple[tuple[str, str], ...]) -> tuple[list[int], list[str]]:
    """Flatten nested ranges into starts and reasons: each reason holds until the next start."""
    networks = [(ip_network(text), reason) for text, reason in ranges]
    edges = {int(network.network_address) for network, _ in networks}
    edges |= {int(network.broadcast_address) + 1 for network, _ in networks}
    whole = networks[0][0]
    starts = sorted(edges - {int(whole.broadcast_address) + 1})
    return starts, [_last_reason(start, networks) for start in starts]


def _last_reason(number: int, networks: list[tuple[Network, str]]) -> str:
    return next(
        reason
        for network, reason in reversed(networks)
        if int(network.network_address) <= number <= int(network.broadcast_address)
    )


_TABLE_4 = _table(_RANGES_4)
_TABLE_6 = _table(_RANGES_6)
