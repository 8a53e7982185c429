"""How much of a body the head of a request waits for."""

from __future__ import annotations

import pytest

from egress.http1 import CHUNKED, Framing
from egress.relay.held_body import MAX_SEARCH_SECONDS, MAX_SEARCHED_BYTES, HeldAccount, HeldBody
from egress.shares.pool import Resource, SharePool

LONG = 10 * MAX_SEARCHED_BYTES


@pytest.mark.parametrize(
    ("framing", "wanted"),
    [
        (Framing.sized(1), 1),
        (Framing.sized(MAX_SEARCHED_BYTES), MAX_SEARCHED_BYTES),
        (Framing.sized(LONG), MAX_SEARCHED_BYTES),
        (CHUNKED, 1),
    ],
)
def test_the_head_waits_for_so_many_bytes(framing: Framing, wanted: int) -> None:
    held = HeldBody()
    held.wait(framing, 5.0)
    if wanted > 1:
        assert not held.keep(b"x" * (wanted - 1))
    assert held.keep(b"y"), "the piece that ends the wait is told once"
    assert not held.is_awaited
    assert not held.keep(b"z")
    assert b"".join(held.take()) == b"x" * (wanted - 1) + b"yz"
    assert held.take() == []


def test_bytes_that_came_before_the_wait_count() -> None:
    held = HeldBody()
    held.keep(b"xy")
    held.wait(Framing.sized(3), 5.0)
    assert held.is_awaited
    assert held.keep(b"z")
    held = HeldBody()
    held.keep(b"xyz")
    held.wait(Framing.sized(3), 5.0)
    assert not held.is_awaited


def test_only_a_body_of_unknown_length_is_given_up() -> None:
    for framing, is_given_up in ((CHUNKED, True), (Framing.sized(9), False)):
        held = HeldBody()
        held.wait(framing, 5.0)
        assert not held.is_overdue(5.0 + MAX_SEARCH_SECONDS / 2)
        assert held.is_overdue(5.0 + MAX_SEARCH_SECONDS) is is_given_up
        held.keep(b"x" * 9)
        assert not held.is_overdue(99.0)


def test_the_wait_is_measured_where_there_was_one() -> None:
    held = HeldBody()
    assert held.end_wait(7.0) == 0
    held.wait(CHUNKED, 5.0)
    assert held.end_wait(7.0) == 2
    assert not held.is_awaited


def test_small_pieces_become_one() -> None:
    """Each piece takes memory of its own, and only its bytes count in the share of the sandbox."""
    held = HeldBody()
    pieces = [bytes([number % 251]) * 2 for number in range(30_000)]
    for piece in pieces:
        held.keep(piece)
    taken = held.take()
    assert b"".join(taken) == b"".join(pieces)
    assert len(taken) < 10


def test_pieces_go_one_by_one_and_give_their_share_back() -> None:
    pool = SharePool()
    account = pool.account("box")
    held, taken = HeldBody(), HeldAccount(account)
    for data in (b"x" * 20_000, b"y" * 20_000):
        assert taken.take(len(data))
        held.keep(data)
    assert pool.count("box", Resource.HELD_BODIES) == 40_000
    assert held.take_first() == b"x" * 20_000
    taken.give(20_000)
    assert held.take_first() == b"y" * 20_000
    assert held.is_empty
    # Bytes that came after the verdict were never taken.
    taken.give(30_000)
    taken.close()
    assert pool.count("box", Resource.HELD_BODIES) == 0


def test_what_a_handler_has_is_given_back_after_its_verdict() -> None:
    pool = SharePool()
    taken = HeldAccount(pool.account("box"))
    assert taken.take(10)
    taken.lend()
    taken.close()
    assert pool.count("box", Resource.HELD_BODIES) == 10
    taken.end_loan()
    assert pool.count("box", Resource.HELD_BODIES) == 0
