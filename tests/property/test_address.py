"""No wrapping hides a refused address, nothing raises, and the standard library is the oracle."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from hypothesis import given
from hypothesis import strategies as st

from egress.address_check import OwnNetworks, classify_address

LOW_64 = 1 << 64
v4 = st.ip_addresses(v=4).map(lambda address: IPv4Address(int(address)))
v6 = st.ip_addresses(v=6).map(lambda address: IPv6Address(int(address)))
addresses = st.one_of(v4, v6)


def wrappings(inner: IPv4Address, other: int) -> list[IPv6Address]:
    """Return every way we know to pack an IPv4 address; `other` fills what is free."""
    number = int(inner)
    free = other % LOW_64
    site = 0x2606_4700 << 96
    return [
        IPv6Address(wrapped)
        for wrapped in (
            number,  # compatible
            0xFFFF << 32 | number,  # mapped
            0xFFFF << 48 | number,  # translated
            0x64_FF9B << 96 | number,  # NAT64
            0x64_FF9B_0001 << 80 | number,  # NAT64, local prefix
            0x2002 << 112 | number << 80 | free,  # 6to4
            0x2001_0000 << 96 | number << 64 | free,  # Teredo, server
            0x2001_0000 << 96 | 0x0808_0808 << 64 | 0xFFFF_FFFF ^ number,  # Teredo, client
            site | 0x0000_5EFE << 32 | number,  # ISATAP
            site | 0x0200_5EFE << 32 | number,
        )
    ]


@given(v4, st.integers(0))
def test_every_wrapping_of_a_refused_address_is_refused(inner: IPv4Address, other: int) -> None:
    if classify_address(inner).allowed:
        return
    for wrapped in wrappings(inner, other):
        assert not classify_address(str(wrapped)).allowed, wrapped


@given(
    st.sampled_from(["10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "100.64.0.0/10", "192.168.0.0/16"]),
    st.integers(0),
    st.integers(0),
)
def test_every_wrapping_of_a_local_address_is_refused(text: str, pick: int, other: int) -> None:
    network = IPv4Network(text)
    inner = network[pick % network.num_addresses]
    assert not classify_address(inner).allowed
    for wrapped in wrappings(inner, other):
        assert not classify_address(str(wrapped)).allowed, wrapped


@given(v4, st.integers(0))
def test_every_wrapping_of_an_own_address_is_refused(inner: IPv4Address, other: int) -> None:
    own = OwnNetworks([inner])
    for spelled in (inner, *wrappings(inner, other)):
        assert not classify_address(str(spelled), own).allowed


@given(addresses, st.integers(0, 32))
def test_everything_inside_an_own_network_is_refused(address: IPv4Address | IPv6Address, prefix: int) -> None:
    own = OwnNetworks([f"{address}/{prefix}"])
    network = ip_network(f"{address}/{prefix}", strict=False)
    for inside in (address, network[0], network[-1]):
        assert not classify_address(str(inside), own).allowed


# Refused here although the standard library calls them global, each for its reason.
STRICTER = tuple(
    map(
        ip_network,
        (
            "168.63.129.16/32",  # metadata that looks public
            "192.0.0.0/24",  # protocol assignments; two anycast addresses in it are global
            "192.88.99.0/24",  # relays of 6to4, withdrawn
            "224.0.0.0/4",  # multicast is no peer
            "::/3",  # nothing outside 2000::/3 is global unicast
            "2001::/23",  # protocol assignments; some in it are global
            "2001:db8::/32",
            "2002::/16",  # depends on what it carries
            "3fff::/20",  # older lists do not know it
            "4000::/2",
            "8000::/1",
        ),
    )
)
# Judged by what they carry, which releases of the standard library do in different ways.
BY_CONTENT = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"), IPv6Network("2002::/16"))


def is_isatap(address: IPv4Address | IPv6Address) -> bool:
    return isinstance(address, IPv6Address) and int(address) >> 32 & 0xFCFF_FFFF == 0x5EFE


@given(addresses)
def test_agrees_with_the_standard_library_but_for_the_known_differences(
    address: IPv4Address | IPv6Address,
) -> None:
    allowed = classify_address(str(address)).allowed
    if allowed and not address.is_global:
        assert any(address in network for network in BY_CONTENT)
    if address.is_global and not allowed:
        assert any(address in network for network in STRICTER) or is_isatap(address)


@given(v4.filter(lambda address: address.is_global and not address.is_multicast))
def test_global_addresses_of_version_4_pass(address: IPv4Address) -> None:
    if not any(address in network for network in STRICTER):
        assert classify_address(str(address)).allowed


@given(st.integers(0x2003 << 112, (0x3FFE << 112) - 1).map(IPv6Address))
def test_global_addresses_of_version_6_pass(address: IPv6Address) -> None:
    if not is_isatap(address):
        assert classify_address(str(address)).allowed


@given(
    st.one_of(
        st.text(),
        st.text("0123456789abcdefx.:%/[]", max_size=50),
        st.binary().map(lambda b: b.decode("latin-1")),
    )
)
def test_never_raises_and_never_passes_what_is_no_address(text: str) -> None:
    verdict = classify_address(text)
    try:
        ip_address(text)
    except ValueError:
        assert (verdict.allowed, verdict.reason) == (False, "malformed")


@given(addresses, st.lists(st.text(max_size=20), max_size=5))
def test_unreadable_ranges_change_nothing(address: IPv4Address | IPv6Address, allowed: list[str]) -> None:
    unreadable = [text for text in allowed if "." not in text and ":" not in text]
    assert classify_address(str(address), allowed=unreadable) == classify_address(str(address))


@given(addresses, st.integers(0, 32))
def test_opening_a_range_never_refuses_and_opens_only_what_is_inside(
    address: IPv4Address | IPv6Address, prefix: int
) -> None:
    network = ip_network(f"{address}/{prefix}", strict=False)
    before, after = classify_address(address), classify_address(address, allowed=[network])
    assert after.allowed or not before.allowed
    outside = ip_address("10.9.8.7")
    assert outside in network or not classify_address(outside, allowed=[network]).allowed
