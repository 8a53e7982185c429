"""Wrong tokens are counted: so many in a second, and never more at once."""

from __future__ import annotations

from egress.wrong_tokens import MAX_WRONG_TOKENS, WrongTokenBucket


def test_a_clock_that_stands_still_gives_nothing_back() -> None:
    bucket = WrongTokenBucket(lambda: 5.0)
    assert [bucket.take() for _ in range(MAX_WRONG_TOKENS + 1)] == [True] * MAX_WRONG_TOKENS + [False]


def test_time_gives_back_what_it_is_worth_and_no_more_than_a_second_of_it() -> None:
    now = [0.0]
    bucket = WrongTokenBucket(lambda: now[0])
    while bucket.take():
        pass
    now[0] += 1 / MAX_WRONG_TOKENS
    assert [bucket.take(), bucket.take()] == [True, False]
    now[0] += 3600
    assert [bucket.take() for _ in range(MAX_WRONG_TOKENS + 1)] == [True] * MAX_WRONG_TOKENS + [False]
