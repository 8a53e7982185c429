"""Names that lead to where no sandbox may go: S-18, S-19 and S-79, in every spelling.

Here is only the verdict on an address; that exactly the judged address is dialled is tested with the
door. The positive controls: a public address passes, and so does one that a rule opens.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest

from egress.address_check import OwnNetworks, classify_address

METADATA = "169.254.169.254"
PRIVATE = "10.0.0.7"
OWN_PUBLIC = "93.184.216.5"
OWN = OwnNetworks([f"{OWN_PUBLIC}/32", "172.17.0.1/16", "2a00:1450::5/128"])
TARGETS = [METADATA, PRIVATE, OWN_PUBLIC, "127.0.0.1", "172.17.0.2", "168.63.129.16", "100.100.100.200"]


def packed(text: str) -> list[str]:
    """Return the spellings in which IPv6 carries an IPv4 address."""
    number = int(IPv4Address(text))
    high, low = number >> 16, number & 0xFFFF
    inverse = 0xFFFF_FFFF ^ number
    return [
        f"::ffff:{text}",
        f"::ffff:{high:x}:{low:x}",
        f"::{text}",
        f"::{high:x}:{low:x}",
        f"::ffff:0:{text}",
        f"64:ff9b::{text}",
        f"64:ff9b::{high:x}:{low:x}",
        f"64:ff9b:1::{high:x}:{low:x}",
        f"2002:{high:x}:{low:x}::",
        f"2002:{high:x}:{low:x}::1",
        f"2001:0:{high:x}:{low:x}::",
        f"2001:0:808:808::{inverse >> 16:x}:{inverse & 0xFFFF:x}",
        f"fe80::5efe:{text}",
        f"2606:4700::5efe:{high:x}:{low:x}",
        f"2606:4700::200:5efe:{high:x}:{low:x}",
    ]


def numeric(text: str) -> list[str]:
    """Return what a C library, a browser or a shell would read as the same IPv4 address."""
    first, second, third, fourth = IPv4Address(text).packed
    number = int(IPv4Address(text))
    return [
        str(number),
        hex(number),
        f"0{number:o}",
        f"{first}.{number & 0xFFFFFF}",
        f"{first}.{second}.{number & 0xFFFF}",
        f"0x{first:x}.{second}.{third}.{fourth}",
        f"0{first:o}.{second}.{third}.{fourth}",
        f"{first}.{second}.{third}.{fourth:03}",
        f"{first}.{second}.{third}.{fourth}.",
        f" {text}",
        f"{text}\x00",
        f"{text}%00",
        f"[{text}]",
        f"{text}:80",
        f"{text}@8.8.8.8",
        text.replace(".", "。"),
        text.replace("1", "\uff11"),
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_refuses_the_plain_spelling(target: str) -> None:
    """S-18, S-19, S-79."""
    assert not classify_address(target, OWN).allowed


@pytest.mark.parametrize("target", TARGETS)
def test_refuses_every_wrapping(target: str) -> None:
    """S-18, S-19, S-79, as AAAA records and in every spelling of them."""
    for text in packed(target):
        address = IPv6Address(text)
        for spelling in {text, str(address), address.exploded, text.upper()}:
            assert not classify_address(spelling, OWN).allowed, spelling
        assert not classify_address(address, OWN).allowed, text


@pytest.mark.parametrize("target", [*TARGETS, "1.1.1.8"])
def test_refuses_every_numeric_spelling(target: str) -> None:
    """S-18: what is not canonical is no address, even for a public one."""
    for text in numeric(target):
        assert not classify_address(text, OWN).allowed, text


@pytest.mark.parametrize("text", ["::1", "fe80::1%eth0", "::1%lo", "fe80::a9fe:a9fe%1", "0", "0.0.0.0", "::"])
def test_refuses_spellings_of_this_machine(text: str) -> None:
    """S-19: a connect to the unspecified address reaches loopback."""
    assert not classify_address(text, OWN).allowed


@pytest.mark.parametrize("target", ["169.254.169.254", "168.63.129.16", "100.100.100.200", "fd00:ec2::254"])
def test_metadata_is_not_opened_by_a_wide_range(target: str) -> None:
    """S-18 through a rule author's mistake."""
    for allowed in (["0.0.0.0/0", "::/0"], [f"{target}/31", "169.254.0.0/16", "fd00::/8"]):
        assert not classify_address(target, OWN, allowed).allowed


def test_an_opened_private_range_does_not_open_its_wrappings() -> None:
    """S-19 beside an `addresses:` of the rules."""
    for text in packed(PRIVATE):
        assert not classify_address(str(IPv6Address(text)), OWN, ["10.0.0.0/8"]).allowed, text


def test_own_public_addresses_of_version_6_are_refused() -> None:
    """S-79."""
    assert not classify_address("2a00:1450::5", OWN).allowed


def test_public_and_opened_addresses_pass() -> None:
    """Positive control of all of the above."""
    assert classify_address("93.184.216.6", OWN).allowed
    assert classify_address("2a00:1450::6", OWN).allowed
    assert classify_address("64:ff9b::808:808", OWN).allowed
    assert classify_address(PRIVATE, OWN, ["10.0.0.0/24"]).allowed
    assert classify_address(METADATA, OWN, [f"{METADATA}/32"]).allowed
