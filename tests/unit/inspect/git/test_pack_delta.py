"""Objects that are written as changes of others."""

from __future__ import annotations

import pytest

from egress.inspect.git.pack_delta import DeltaError, apply_delta

BASE = bytes(range(256)) * 300
MAX = 1024 * 1024


def sized(number: int) -> bytes:
    made = b""
    while number > 0x7F:
        made += bytes([number & 0x7F | 0x80])
        number >>= 7
    return made + bytes([number])


def delta(size: int, *commands: bytes, base_size: int = len(BASE)) -> bytes:
    return sized(base_size) + sized(size) + b"".join(commands)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(b"\x03abc", b"abc", id="insert"),
        pytest.param(b"\x91\x05\x04", BASE[5:9], id="copy"),
        pytest.param(b"\x90\x04", BASE[:4], id="copy from the beginning"),
        pytest.param(b"\xb3\x01\x01\x02\x01", BASE[0x101 : 0x101 + 0x102], id="two bytes each"),
        pytest.param(b"\x80", BASE[:0x10000], id="copy without a size"),
        pytest.param(b"\xb4\x01\x01\x00", BASE[0x10000 : 0x10000 + 1], id="third byte of the place"),
    ],
)
def test_copies_and_inserts(command: bytes, expected: bytes) -> None:
    assert apply_delta(BASE, delta(len(expected), command), MAX) == expected


def test_commands_follow_each_other() -> None:
    assert apply_delta(BASE, delta(7, b"\x90\x04", b"\x03abc"), MAX) == BASE[:4] + b"abc"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x80" * 9, id="endless size"),
        pytest.param(sized(len(BASE)), id="one size"),
        pytest.param(delta(3, b"\x03abc", base_size=5), id="another base"),
        pytest.param(delta(2, b"\x03abc"), id="longer than it says"),
        pytest.param(delta(4, b"\x03abc"), id="shorter than it says"),
        pytest.param(delta(3, b"\x03ab"), id="cut inside an insert"),
        pytest.param(delta(3, b"\x00abc"), id="reserved command"),
        pytest.param(delta(4, b"\x91\x05"), id="cut inside a copy"),
        pytest.param(delta(4, b"\x9f\xff\xff\xff\xff\x04"), id="copy behind the end"),
        pytest.param(delta(MAX + 1, *[b"\x80"] * 17), id="too large"),
    ],
)
def test_refuses_a_malformed_delta(data: bytes) -> None:
    with pytest.raises(DeltaError):
        apply_delta(BASE, data, MAX)
