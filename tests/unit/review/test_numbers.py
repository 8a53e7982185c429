"""Adding up."""

from __future__ import annotations

from egress.review.numbers import Numbers, Sum


def test_sums_add_up() -> None:
    total = Sum()
    total.add(Sum(2, 1, 1, 10, 20, {5: 1}))
    total.add(Sum(1, 0, 0, 1, 2, {5: 1, 9: 2}))
    assert total.numbers() == Numbers(3, 1, 1, 11, 22, 5, 9)
    assert Sum().numbers() == Numbers()
