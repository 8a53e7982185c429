"""Folding: the first refusals of a second whole, the others as one count for each code."""

from __future__ import annotations

from egress.audit.flood_limit import MAX_SINGLE_REFUSALS, OVER_QUOTA_INTERVAL, FoldedRefusals, RefusalCounter


def admitted(folder: RefusalCounter, times: int, now: float, *, sandbox: str = "a", code: str = "x") -> int:
    return sum(folder.admit(sandbox, code, now, f"at {now}") for _ in range(times))


def test_the_first_of_a_second_are_kept_whole() -> None:
    folder = RefusalCounter()
    assert admitted(folder, 100, 10.0) == MAX_SINGLE_REFUSALS
    assert admitted(folder, 100, 10.99) == 0
    assert admitted(folder, 100, 11.0) == MAX_SINGLE_REFUSALS


def test_the_others_are_one_record_for_each_code() -> None:
    folder = RefusalCounter()
    admitted(folder, 30, 10.0)
    admitted(folder, 5, 10.5, code="y")
    assert folder.waiting == 15
    assert folder.take_due(10.9) == []
    assert folder.take_due(11.0) == [
        FoldedRefusals("a", "x", 10, "at 10.0"),
        FoldedRefusals("a", "y", 5, "at 10.0"),
    ]
    assert folder.take_due(12.0) == []
    assert folder.waiting == 0


def test_one_sandbox_does_not_fold_another() -> None:
    folder = RefusalCounter()
    admitted(folder, 100, 10.0)
    assert admitted(folder, 3, 10.0, sandbox="b") == 3


def test_no_count_is_lost_when_the_next_second_begins_before_anybody_asks() -> None:
    folder = RefusalCounter()
    admitted(folder, 30, 10.0)
    admitted(folder, 30, 11.5)
    assert [folded.count for folded in folder.take_due(11.5)] == [10]
    assert sum(folded.count for folded in folder.take_due(99.0)) == 10


def test_seconds_that_nobody_asked_for_become_one_record() -> None:
    """On a full disk nobody does, perhaps for days."""
    folder = RefusalCounter()
    for second in range(100):
        admitted(folder, 21, 10.0 + second)
    assert folder.take_due(1000.0) == [FoldedRefusals("a", "x", 100, "at 10.0")]


def test_where_it_is_slow_nothing_is_whole_and_counts_come_once_a_minute() -> None:
    folder = RefusalCounter()
    for second in range(OVER_QUOTA_INTERVAL):
        assert not folder.admit("a", "x", 10.0 + second, "at", is_slow=True)
        assert folder.take_due(10.0 + second) == []
    assert folder.take_due(10.0 + OVER_QUOTA_INTERVAL) == [
        FoldedRefusals("a", "x", OVER_QUOTA_INTERVAL, "at")
    ]


def test_a_sandbox_that_is_gone_leaves_nothing_behind() -> None:
    folder = RefusalCounter()
    for number in range(50):
        admitted(folder, 1, 10.0, sandbox=str(number))
    folder.take_due(11.0)
    assert not folder._windows
