"""A ring keeps the newest bytes, and hides no hole."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as some

from egress.sandbox.cancellation import CancelScope, enter_scope
from egress.sandbox.errors import OutputLostError
from egress.sandbox.ring_buffer import RingBuffer


@given(some.lists(some.binary(max_size=20)), some.integers(min_value=0, max_value=50))
def test_the_newest_are_kept(pieces: list[bytes], most: int) -> None:
    ring = RingBuffer(most)
    for piece in pieces:
        ring.add(piece)
    ring.close()
    whole = b"".join(pieces)
    assert ring.data() == whole[max(0, len(whole) - most) :]
    assert ring.dropped == len(whole) - len(ring.data())
    assert b"".join(ring.pieces()) == ring.data()


def test_a_reader_gets_what_comes_and_the_end() -> None:
    ring = RingBuffer(100)
    ring.add(b"old")
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.extend(ring.pieces()))
    reader.start()
    ring.add(b"new")
    ring.close()
    reader.join(30)
    assert b"".join(found) == b"oldnew"


def test_who_is_too_slow_is_told_how_much_is_lost() -> None:
    ring = RingBuffer(4)
    ring.add(b"abcd")
    pieces = ring.pieces()
    assert next(pieces) == b"abcd"
    ring.add(b"efghij")
    with pytest.raises(OutputLostError, match=r"^2 bytes"):
        next(pieces)


def test_a_wait_ends_with_its_time_or_when_it_is_given_up() -> None:
    ring = RingBuffer(4)
    assert ring.read_after(0, 0.01) == b""
    scope = CancelScope()
    scope.cancel()
    with enter_scope(scope):
        assert ring.read_after(0) == b""
