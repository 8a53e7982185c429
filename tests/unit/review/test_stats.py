"""Totals: the edges of spans, the steps of charts, and what cannot be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.review import Filters, Index
from egress.review.filters import FilterError
from egress.review.line_fields import COUNTED_FIELDS
from egress.review.stats import fitting
from egress.review.timestamps import DAY, HOUR, SECOND
from tests.unit.review.sample import START, write


@pytest.fixture
def log(tmp_path: Path) -> Path:
    write(tmp_path, rotate_at=900)
    return tmp_path


@pytest.mark.parametrize("by", COUNTED_FIELDS)
def test_every_part_has_its_share(by: str, log: Path) -> None:
    with Index(log, reserve=0) as index:
        index.catch_up()
        found = index.stats(Filters(), by)
        assert found.total.requests == 7
        if by != "secret":
            assert sum(numbers.requests for _, numbers in found.rows) == 7
        assert found.parts == len(found.rows)


@pytest.mark.parametrize("hours", range(-1, 10))
def test_a_span_has_its_lines_and_no_others(hours: int, log: Path) -> None:
    """Lines are an hour apart, each half an hour within its hour; the first is no request."""
    moment = START + hours * HOUR + HOUR // 3
    with Index(log, reserve=0) as index:
        index.catch_up()
        before, after = index.stats(Filters(until=moment)), index.stats(Filters(since=moment))
        assert before.total.requests + after.total.requests == 7
        assert before.total.requests == max(0, min(7, hours))


def test_what_nothing_is_kept_by_is_refused(log: Path) -> None:
    with Index(log, reserve=0) as index:
        index.catch_up()
        with pytest.raises(FilterError):
            index.stats(Filters(), "path")


def test_a_chart_has_no_holes_and_no_more_steps_than_fit(log: Path) -> None:
    with Index(log, reserve=0) as index:
        index.catch_up()
        steps = index.over_time(Filters(), HOUR)
        assert [start % HOUR for start, _ in steps] == [0] * 8
        assert len(index.over_time(Filters(), SECOND)) <= 401
        assert index.over_time(Filters(since=START + DAY)) == ()
        assert index.over_time(Filters(since=START, until=START)) == ()


def test_a_step_fits_its_span() -> None:
    assert fitting(HOUR) == 5 * 60 * SECOND
    assert fitting(7 * DAY) == 6 * HOUR
    assert fitting(1 << 62) == 30 * DAY
