"""Columns: what was packed is unpacked, and damage is told."""

from __future__ import annotations

import zlib
from array import array

import pytest

from egress.review.columns import DamagedError, NumberColumns, PlaceColumns, unpacked


def test_places_and_numbers_come_back() -> None:
    places = PlaceColumns(array("I", [0, 900]), array("I", [1, 2]), array("q", [-5, 2**60]))
    assert PlaceColumns.unpacked(places.packed(), 2) == places
    numbers = NumberColumns(*(array("Q", [value, 2**60]) for value in range(4)))
    assert NumberColumns.unpacked(numbers.packed(), 2) == numbers
    assert NumberColumns.unpacked(NumberColumns().packed(), 0) == NumberColumns()


@pytest.mark.parametrize("data", [b"", b"no", zlib.compress(b"x"), zlib.compress(bytes(10_000_000))])
def test_what_was_not_packed_here_is_damage(data: bytes) -> None:
    with pytest.raises(DamagedError):
        PlaceColumns.unpacked(data, 2)
    with pytest.raises(DamagedError):
        NumberColumns.unpacked(data, 2)


def test_texts_are_unpacked_within_bounds() -> None:
    assert unpacked(zlib.compress(b"a\nb")) == b"a\nb"
    with pytest.raises(DamagedError):
        unpacked(b"no")
