"""Whoever sets no end waits for as long as it takes; that work can be given up is held where it is done."""

from __future__ import annotations

from egress.review.drafting.draft import draft
from egress.review.drafting.timeout import no_timeout
from egress.review.drafting.traffic import Traffic
from tests.unit.review.drafting.sample import NOW, exchange


def test_whoever_sets_no_end_gets_the_same_draft() -> None:
    traffic = Traffic.of([exchange(path=f"/issues/{number}") for number in range(4)])
    made = draft(traffic, None, NOW, no_timeout)
    assert made.text == draft(traffic, None, NOW).text
    assert made.replayed.same == 4
