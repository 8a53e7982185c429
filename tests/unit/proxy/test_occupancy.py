"""Places: so many in all, so many for a sandbox, and all of them given back."""

from __future__ import annotations

import pytest

from egress.proxy.occupancy import Occupancy


def test_counts_by_sandbox_until_the_block_ends() -> None:
    occupancy = Occupancy(10, 2)
    with occupancy.place("a") as first, occupancy.place("a") as second, occupancy.place("b") as other:
        assert (first, second, other) == (True, True, True)
        assert (occupancy.of("a"), occupancy.of("b")) == (2, 1)
    assert (occupancy.of("a"), occupancy.of("b")) == (0, 0)


def test_a_full_sandbox_takes_no_more_and_keeps_its_count() -> None:
    occupancy = Occupancy(10, 1)
    with occupancy.place("a"):
        with occupancy.place("a") as second:
            assert not second
        assert occupancy.of("a") == 1
        with occupancy.place("b") as other:
            assert other


def test_the_total_is_bounded_over_all_sandboxes() -> None:
    occupancy = Occupancy(2, 2)
    with occupancy.place("a"), occupancy.place("b"), occupancy.place("c") as third:
        assert not third
    with occupancy.place("c") as third:
        assert third


def test_an_error_inside_gives_the_place_back() -> None:
    occupancy = Occupancy(1, 1)
    with pytest.raises(RuntimeError), occupancy.place("a"):
        raise RuntimeError
    with occupancy.place("a") as again:
        assert again


def test_names_of_sandboxes_that_left_are_forgotten() -> None:
    occupancy = Occupancy(10, 1)
    for number in range(5):
        with occupancy.place(f"box-{number}"):
            pass
    assert not occupancy._by_sandbox
