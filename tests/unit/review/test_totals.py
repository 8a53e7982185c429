"""Adding up."""

from __future__ import annotations

from egress.review.totals import TotalsBuilder, TrafficTotals


def test_sums_add_up() -> None:
    total = TotalsBuilder()
    total.add(TotalsBuilder(4, 1, 2, 1, 1, 10, 20, {5: 1}))
    total.add(TotalsBuilder(1, 0, 1, 0, 0, 1, 2, {5: 1, 9: 2}))
    assert total.numbers() == TrafficTotals(5, 1, 3, 1, 1, 11, 22, 5, 9)
    assert TotalsBuilder().numbers() == TrafficTotals()
