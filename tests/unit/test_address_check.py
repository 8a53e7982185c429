"""Each range, each wrapping, each way to open a range."""

from __future__ import annotations

from ipaddress import IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_network
from typing import cast

import pytest

from egress.address_check import OwnNetworks, classify_address

REFUSED = {
    "0.0.0.0": "unspecified",
    "0.1.2.3": "this-network",
    "10.0.0.1": "private",
    "10.255.255.255": "private",
    "100.64.0.1": "cgnat",
    "100.127.255.255": "cgnat",
    "100.100.100.200": "metadata",
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "168.63.129.16": "metadata",
    "169.254.0.1": "link-local",
    "169.254.169.254": "metadata",
    "169.254.0.23": "metadata",
    "169.254.42.42": "metadata",
    "169.254.170.2": "metadata",
    "169.254.170.23": "metadata",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.8": "reserved",
    "192.0.0.192": "metadata",
    "192.0.2.1": "documentation",
    "192.88.99.1": "reserved",
    "192.168.1.1": "private",
    "198.18.0.1": "benchmarking",
    "198.19.255.255": "benchmarking",
    "198.51.100.7": "documentation",
    "203.0.113.7": "documentation",
    "224.0.0.1": "multicast",
    "239.255.255.255": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "broadcast",
    "::": "unspecified",
    "::1": "loopback",
    "::2": "this-network",
    "::2:3:4": "reserved",
    "64:ff9b:1::1": "nat64-local",
    "100::1": "discard",
    "200::1": "reserved",
    "1fff::1": "reserved",
    "2001:0:808:808::f7f7:f7f7": "teredo",
    "2001:1::1": "reserved",
    "2001:2::1": "benchmarking",
    "2001:10::1": "reserved",
    "2001:20::1": "reserved",
    "2001:db8::1": "documentation",
    "3fff::1": "documentation",
    "4000::1": "reserved",
    "5f00::1": "reserved",
    "fc00::1": "ula",
    "fd00:42::42": "metadata",
    "fd00:ec2::254": "metadata",
    "fd00:ec2::23": "metadata",
    "fd12:3456::1": "ula",
    "fd20:ce::254": "metadata",
    "fe80::1": "link-local",
    "fe80::a9fe:a9fe": "metadata",
    "fec0::1": "site-local",
    "ff02::1": "multicast",
}
# The first and the last address outside a refused range, and what is public for other reasons.
PUBLIC = [
    "1.0.0.0",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2606:4700:4700::1111",
    "2606:4700::5eff:10.0.0.1",
    "2a00:1450::1",
    "3ffe:ffff::1",
]


@pytest.mark.parametrize(("text", "reason"), REFUSED.items())
def test_refuses_each_range_with_its_reason(text: str, reason: str) -> None:
    verdict = classify_address(text)
    assert (verdict.allowed, verdict.reason) == (False, reason)


@pytest.mark.parametrize("text", PUBLIC)
def test_passes_public_addresses(text: str) -> None:
    verdict = classify_address(str(ip_address(text)))
    assert (verdict.allowed, verdict.reason) == (True, "public")


@pytest.mark.parametrize("text", ["10.0.0.1", "2606:4700:4700::1111", "::ffff:10.0.0.1"])
def test_judges_an_address_object_like_its_text(text: str) -> None:
    assert classify_address(ip_address(text)) == classify_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "localhost",
        "8.8.8.8 ",
        "8.8.8.8\n",
        "8.8.8",
        "8.8.8.8.8",
        "08.8.8.8",
        "010.8.8.8",
        "0x8.8.8.8",
        "134744072",
        "0x08080808",
        "8.8.8.8/32",
        "8.8.8.8:443",
        "[2606:4700::1]",
        "2606:4700::1%1",
        "2606:4700:0::1",
        "2606:4700:0000::1",
        "2606:4700::A",
        "2606:4700::1.2.3.4",
        "::FFFF:8.8.8.8",
        "8。8。8。8",
        "٨.8.8.8",
        "\x00",
        "\ud800",
        "1" * 5000,
    ],
)
def test_refuses_what_is_not_a_canonical_spelling(text: str) -> None:
    verdict = classify_address(text)
    assert (verdict.allowed, verdict.reason) == (False, "malformed")


def test_accepts_both_spellings_of_a_mapped_address_that_resolvers_write() -> None:
    assert classify_address("::ffff:8.8.8.8").allowed
    assert classify_address("::ffff:808:808").allowed


def test_reads_every_digit_of_the_hexadecimal_spelling_of_a_mapped_address() -> None:
    assert classify_address("::ffff:808:809").reason == "public"
    assert classify_address("::ffff:7f00:1").reason == "loopback"


def test_accepts_the_dotted_spelling_of_a_compatible_address_and_names_what_it_carries() -> None:
    assert classify_address("::127.0.0.1").reason == "loopback"


@pytest.mark.parametrize("stranger", [None, 134744072, b"8.8.8.8", ip_network("8.8.8.8/32")])
def test_refuses_what_is_neither_text_nor_an_address(stranger: object) -> None:
    verdict = classify_address(cast("str", stranger))
    assert (verdict.allowed, verdict.reason) == (False, "malformed")


def test_refuses_an_address_object_with_a_scope() -> None:
    assert classify_address(IPv6Address("2606:4700::1%eth0")).reason == "malformed"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("::ffff:169.254.169.254", "metadata"),
        ("::ffff:a9fe:a9fe", "metadata"),
        ("::127.0.0.1", "loopback"),
        ("::ffff:0:a00:1", "private"),
        ("64:ff9b::a9fe:a9fe", "metadata"),
        ("2002:7f00:1::", "loopback"),
        ("2002:a00:1::808:808", "private"),
        ("2001:0:7f00:1::f7f7:f7f7", "loopback"),
        ("2001:0:808:808::80ff:fffe", "loopback"),
        ("2606:4700::5efe:10.0.0.1", "private"),
        ("2606:4700::200:5efe:10.0.0.1", "private"),
        ("2606:4700::300:5efe:10.0.0.1", "private"),
        ("2002:808:808::5efe:7f00:1", "loopback"),
    ],
)
def test_refuses_a_wrapping_for_the_reason_of_what_it_carries(text: str, reason: str) -> None:
    verdict = classify_address(str(ip_address(text)))
    assert (verdict.allowed, verdict.reason) == (False, reason)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("::ffff:8.8.8.8", True),
        ("64:ff9b::808:808", True),
        ("2002:808:808::1", True),
        ("2606:4700::5efe:808:808", True),
        ("::8.8.8.8", False),
        ("::ffff:0:808:808", False),
        ("64:ff9b:1::808:808", False),
        ("2001:0:808:808::f7f7:f7f7", False),
    ],
)
def test_a_wrapping_of_a_public_address_passes_only_where_it_is_in_use(text: str, allowed: bool) -> None:
    assert classify_address(text).allowed is allowed


OWN = OwnNetworks(
    [IPv4Interface("93.184.216.5/24"), "8.8.4.4", IPv6Interface("2a00:1450::5/64"), "fe80::1%eth0/64"]
)


@pytest.mark.parametrize(
    "text",
    [
        "93.184.216.5",
        "93.184.216.200",
        "8.8.4.4",
        "2a00:1450::5",
        "2a00:1450::9",
        "::ffff:8.8.4.4",
        "64:ff9b::808:404",
    ],
)
def test_refuses_own_addresses_and_their_networks(text: str) -> None:
    assert classify_address(text).allowed
    verdict = classify_address(text, OWN)
    assert (verdict.allowed, verdict.reason) == (False, "own")


@pytest.mark.parametrize("text", ["93.184.217.5", "8.8.4.5", "2a00:1450:0:1::5"])
def test_passes_the_neighbours_of_own_networks(text: str) -> None:
    assert classify_address(text, OWN).allowed


def test_takes_own_addresses_in_every_form() -> None:
    sources = ["8.8.8.8", ip_address("8.8.8.8"), IPv4Interface("8.8.8.8/32"), ip_network("8.8.8.8/32")]
    for source in sources:
        assert classify_address("8.8.8.8", OwnNetworks([source])).reason == "own"


def test_takes_a_link_local_network_as_an_operating_system_lists_it() -> None:
    assert classify_address("fe80::9", OWN).reason == "own"
    assert classify_address("fe80::1", OwnNetworks(["fe80::1%eth0"])).reason == "own"
    assert classify_address("fe80::2", OwnNetworks(["fe80::1%eth0"])).reason == "link-local"


def test_metadata_is_named_even_inside_an_own_network() -> None:
    assert classify_address("169.254.169.254", OwnNetworks(["169.254.169.7/16"])).reason == "metadata"


def test_refuses_an_own_network_that_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="eth0"):
        OwnNetworks(["eth0"])


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("10.1.2.3", ["10.1.0.0/16"]),
        ("10.1.2.3", ["192.168.0.0/16", "10.1.2.3/32"]),
        ("10.1.2.3", ["10.1.2.3"]),
        ("fd12::1", ["fd12::/16"]),
        ("127.0.0.1", ["127.0.0.0/8"]),
        ("::1", ["::1/128"]),
        ("169.254.169.254", ["169.254.169.254/32"]),
        ("fd00:ec2::254", ["fd00:ec2::254/128"]),
    ],
)
def test_opens_a_range_that_the_rule_names(text: str, allowed: list[str]) -> None:
    verdict = classify_address(text, allowed=allowed)
    assert (verdict.allowed, verdict.reason) == (True, "opened")


def test_takes_an_opened_range_that_is_read_already() -> None:
    ranges = [ip_network("10.0.0.0/8")]
    assert classify_address("10.1.2.3", allowed=ranges).reason == "opened"
    assert classify_address("192.168.1.2", allowed=ranges).reason == "private"


def test_opens_an_own_network_that_the_rule_names() -> None:
    own = OwnNetworks(["192.168.1.5/24"])
    assert classify_address("192.168.1.20", own, ["192.168.1.0/24"]).allowed
    assert not classify_address("192.168.1.20", own, ["192.168.2.0/24"]).allowed


def test_a_public_address_stays_public_beside_opened_ranges() -> None:
    assert classify_address("8.8.8.8", allowed=["10.0.0.0/8"]).reason == "public"


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("10.1.2.3", ["10.2.0.0/16"]),
        ("10.1.2.3", []),
        ("169.254.169.254", ["169.254.0.0/16"]),
        ("169.254.169.254", ["169.254.169.254/31"]),
        ("100.100.100.200", ["100.64.0.0/10"]),
        ("fd00:ec2::254", ["fd00::/8"]),
        ("168.63.129.16", ["0.0.0.0/0"]),
    ],
)
def test_opens_nothing_else(text: str, allowed: list[str]) -> None:
    assert not classify_address(text, allowed=allowed).allowed


@pytest.mark.parametrize("broken", ["", "10.0.0.0/99", "10.1.2.3/8", "everything", "10.0.0.0/8 "])
def test_a_range_that_cannot_be_read_opens_nothing(broken: str) -> None:
    assert not classify_address("10.1.2.3", allowed=[broken]).allowed


def test_a_wrapping_is_opened_only_when_it_and_what_it_carries_are() -> None:
    text = "::ffff:10.0.0.1"
    assert not classify_address(text, allowed=["10.0.0.0/8"]).allowed
    assert not classify_address(text, allowed=["::ffff:0:0/96"]).allowed
    assert classify_address(text, allowed=["10.0.0.0/8", "::ffff:0:0/96"]).allowed


def test_wrapped_metadata_is_opened_only_by_its_own_address_beside_the_wrapping() -> None:
    text = "64:ff9b::a9fe:a9fe"
    assert not classify_address(text, allowed=["64:ff9b::/96", "169.254.0.0/16"]).allowed
    assert not classify_address(text, allowed=["64:ff9b::/96", "169.254.170.2/32"]).allowed
    assert classify_address(text, allowed=["64:ff9b::/96", "169.254.169.254/32"]).allowed


def test_a_wrapping_with_two_meanings_needs_both_opened() -> None:
    text = "2002:a00:1::5efe:c0a8:101"
    assert not classify_address(text, allowed=["2002::/16", "10.0.0.0/8"]).allowed
    assert classify_address(text, allowed=["2002::/16", "10.0.0.0/8", "192.168.0.0/16"]).allowed
