"""Messages to the packet filter, and the reading of its answers."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.netlock.netlink import attribute, batch, nested, number32, read_answers
from egress.netlock.ruleset import lock_messages


def answer(number: int, code: int, length: int = 36) -> bytes:
    return struct.pack("=IHHIIi", length, 2, 0, number, 0, -code) + bytes(16)


def test_attributes_are_padded_and_say_their_length() -> None:
    assert attribute(3, b"abcde") == struct.pack("=HH", 9, 3) + b"abcde" + bytes(3)
    assert (
        nested(1, number32(2, 5)) == struct.pack("=HH", 12, 0x8001) + struct.pack("=HH", 8, 2) + b"\0\0\0\5"
    )


def test_a_batch_begins_ends_and_asks_for_a_confirmation_of_each_change() -> None:
    data = batch(lock_messages(10001))
    kinds, at = [], 0
    while at < len(data):
        length, kind, flags, number, _ = struct.unpack_from("=IHHII", data, at)
        kinds.append((kind & 0xFF if kind >> 8 else -kind, bool(flags & 4), number))
        at += length + (-length % 4)
    assert at == len(data)
    assert kinds[0] == (-0x10, False, 0)
    assert kinds[-1][0] == -0x11
    assert all(asks for _, asks, _ in kinds[1:-1])
    assert [number for *_, number in kinds] == list(range(len(kinds)))


def test_confirmations_and_errors_are_told_apart() -> None:
    assert list(read_answers(answer(1, 0) + answer(2, 95))) == [(1, 0), (2, 95)]


@pytest.mark.parametrize(
    "data",
    [b"x", answer(1, 0)[:10], answer(1, 0, length=4), answer(1, 0, length=400), answer(1, 0, length=18)],
)
def test_a_malformed_answer_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="the kernel sent"):
        list(read_answers(data))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        found = list(read_answers(data))
    except ValueError:
        return
    assert len(found) <= len(data) // 16
