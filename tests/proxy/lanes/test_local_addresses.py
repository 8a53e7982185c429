"""The machine's own addresses: read from the kernel, never left out in silence."""

from __future__ import annotations

import contextlib
import socket
import struct
from ipaddress import ip_address, ip_interface

import pytest

from egress.address_check import classify_address
from egress.proxy.lanes.local_addresses import (
    FRESH_SECONDS,
    LocalAddresses,
    addresses,
    interface_addresses,
    messages,
)


def message(kind: int, body: bytes = b"") -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 1, 0) + body


def attribute(kind: int, data: bytes) -> bytes:
    padding = -len(data) % 4
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(padding)


def address_of(family: int, prefix: int, *attributes: bytes) -> bytes:
    return struct.pack("=BBBBI", family, prefix, 0, 0, 1) + b"".join(attributes)


def test_loopback_is_among_the_addresses_of_this_machine() -> None:
    assert "127.0.0.1/8" in interface_addresses()


@pytest.mark.parametrize("target", ["127.0.0.1", "198.51.100.1"])
def test_the_address_that_the_kernel_sends_from_is_found(target: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        # Without a route out, the address stays unspecified, which is refused anyway.
        with contextlib.suppress(OSError):
            asking.connect((target, 9))
        mine = asking.getsockname()[0]
    assert mine in {"0.0.0.0", *(str(ip_interface(text).ip) for text in interface_addresses())}


def test_reads_an_address_and_its_peer() -> None:
    """On a point-to-point link the one is ours and the other is the operator's."""
    body = address_of(
        socket.AF_INET,
        32,
        attribute(1, bytes([10, 8, 0, 1])),
        attribute(2, bytes([10, 8, 0, 2])),
        attribute(3, b"tun0\x00"),
    )
    assert list(addresses(body)) == ["10.8.0.1/32", "10.8.0.2/32"]


def test_reads_version_6() -> None:
    body = address_of(socket.AF_INET6, 64, attribute(1, ip_address("2a00:1450::5").packed))
    assert list(addresses(body)) == ["2a00:1450::5/64"]


def test_other_families_are_none_of_ours() -> None:
    assert list(addresses(address_of(17, 0, attribute(1, b"\x01\x02\x03\x04\x05\x06")))) == []


def test_several_messages_lie_in_one_datagram() -> None:
    assert [kind for kind, _ in messages(message(20, b"abcde") + bytes(3) + message(3))] == [20, 3]


@pytest.mark.parametrize("data", [b"\x00", message(20)[:-1], struct.pack("=IHHII", 4, 20, 0, 1, 0)])
def test_a_cut_list_is_no_list(data: bytes) -> None:
    with pytest.raises(OSError, match="cut short"):
        list(messages(data))


def test_a_broken_attribute_is_no_address() -> None:
    with pytest.raises(OSError, match="malformed"):
        list(addresses(address_of(socket.AF_INET, 24, struct.pack("=HH", 0, 1))))


# Freshness --------------------------------------------------------------------------------------


def test_what_an_interface_has_is_refused_with_its_network() -> None:
    own = LocalAddresses(lambda: 0.0, read=lambda: ["93.184.216.5/28"])
    assert classify_address("93.184.216.5", own()).reason == "own"
    assert classify_address("93.184.216.6", own()).reason == "own"
    assert classify_address("93.184.216.34", own()).allowed


def test_what_no_interface_shows_can_be_named() -> None:
    own = LocalAddresses(lambda: 0.0, ["93.184.216.5", "64:ff9b:aaaa::/96"], read=list)
    assert classify_address("93.184.216.5", own()).reason == "own"
    assert classify_address("93.184.216.6", own()).allowed
    with pytest.raises(ValueError, match="nonsense"):
        LocalAddresses(lambda: 0.0, ["nonsense"])


def test_the_kernel_is_asked_again_after_a_while() -> None:
    now = 0.0
    present = ["93.184.216.5/32"]
    own = LocalAddresses(lambda: now, read=lambda: present)
    assert classify_address("93.184.216.6", own()).allowed
    present.append("93.184.216.6/32")
    now += FRESH_SECONDS / 2
    assert classify_address("93.184.216.6", own()).allowed
    now += FRESH_SECONDS / 2
    assert not classify_address("93.184.216.6", own()).allowed


def test_what_cannot_be_read_is_an_error_every_time() -> None:
    def fail() -> list[str]:
        raise OSError("no")

    own = LocalAddresses(lambda: 0.0, read=fail)
    for _ in range(2):
        with pytest.raises(OSError, match="no"):
            own()
