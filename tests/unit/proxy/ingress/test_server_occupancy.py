"""Places: so many in all, so many for a sandbox, and all of them given back."""

from __future__ import annotations

import pytest

from egress.proxy.ingress.server import ConnectionSlots


def test_counts_by_sandbox_until_the_block_ends() -> None:
    occupancy = ConnectionSlots(10, 2)
    with occupancy.acquire("a") as first, occupancy.acquire("a") as second, occupancy.acquire("b") as other:
        assert (first, second, other) == (True, True, True)
        assert (occupancy.count("a"), occupancy.count("b")) == (2, 1)
    assert (occupancy.count("a"), occupancy.count("b")) == (0, 0)


def test_a_full_sandbox_takes_no_more_and_keeps_its_count() -> None:
    occupancy = ConnectionSlots(10, 1)
    with occupancy.acquire("a"):
        with occupancy.acquire("a") as second:
            assert not second
        assert occupancy.count("a") == 1
        with occupancy.acquire("b") as other:
            assert other


def test_the_total_is_bounded_over_all_sandboxes() -> None:
    occupancy = ConnectionSlots(2, 2)
    with occupancy.acquire("a"), occupancy.acquire("b"), occupancy.acquire("c") as third:
        assert not third
    with occupancy.acquire("c") as third:
        assert third


def test_an_error_inside_gives_the_place_back() -> None:
    occupancy = ConnectionSlots(1, 1)
    with pytest.raises(RuntimeError), occupancy.acquire("a"):
        raise RuntimeError
    with occupancy.acquire("a") as again:
        assert again


def test_names_of_sandboxes_that_left_are_forgotten() -> None:
    occupancy = ConnectionSlots(10, 1)
    for number in range(5):
        with occupancy.acquire(f"box-{number}"):
            pass
    assert not occupancy._by_sandbox
