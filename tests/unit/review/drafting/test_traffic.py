"""Counting: what is alike is one, and a sandbox cannot make it grow without end."""

from __future__ import annotations

from egress.review.drafting.traffic import Traffic
from tests.unit.review.drafting.sample import exchange


def test_what_is_alike_is_counted_as_one() -> None:
    traffic = Traffic.of([exchange(), exchange(request="c-1-2"), exchange(path="/other")])
    assert [(one.path, times.count, times.example) for one, times in traffic] == [
        ("/user", 2, "c-1-2"),
        ("/other", 1, "c-1-1"),
    ]
    assert traffic.lines == 3


def test_keeps_to_a_profile_and_takes_none_for_default() -> None:
    lines = [exchange(profile="coding"), exchange(), exchange(profile="default")]
    assert Traffic.of(lines, "coding").lines == 1
    assert Traffic.of(lines, "default").lines == 2


def test_is_bounded_and_says_what_is_missing() -> None:
    traffic = Traffic.of([exchange(path=f"/{number}") for number in range(5)] + [exchange(path="/0")], most=3)
    assert (traffic.kinds, traffic.overflow, traffic.lines) == (3, 2, 6)
    assert traffic.missing(1) == (
        "1 line of the log could not be read: run `egress log verify`",
        "2 more lines left out: over 3 different requests before",
    )


def test_folded_refusals_are_counted() -> None:
    counts: list[object] = [40, "x", True, -1]
    folded = [{"event": "folded", "count": count} for count in counts]
    traffic = Traffic.of(folded)
    assert traffic.folded == 40
    assert traffic.missing(0) == ("40 more refusals were counted, not logged one by one",)
