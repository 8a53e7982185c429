"""How much of the log a sandbox may fill in a day."""

from __future__ import annotations

from egress.audit.flood_limit import DailyQuota


def test_it_is_used_up_once() -> None:
    quota = DailyQuota(100)
    assert [quota.spend("a", 40, 1) for _ in range(4)] == [False, False, True, False]
    assert quota.is_spent("a", 1)
    assert quota.used("a") == 160


def test_another_sandbox_has_its_own() -> None:
    quota = DailyQuota(100)
    quota.spend("a", 100, 1)
    assert not quota.is_spent("b", 1)


def test_the_next_day_it_is_given_again() -> None:
    quota = DailyQuota(100)
    quota.spend("a", 100, 1)
    assert not quota.is_spent("a", 2)


def test_a_clock_that_is_put_back_gives_nobody_a_second_day() -> None:
    quota = DailyQuota(100)
    quota.spend("a", 100, 2)
    assert quota.is_spent("a", 1)
    assert quota.is_spent("a", 2)


def test_no_quota_is_never_spent() -> None:
    quota = DailyQuota(0)
    quota.spend("a", 10**12, 1)
    assert not quota.is_spent("a", 1)
