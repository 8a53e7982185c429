"""Threads that ask the index."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.review import Filters
from egress.review import index_pool as desks
from egress.review.index_pool import BusyError, IndexPool, TooSlowError
from tests.unit.ui.page_app import denied, line, write


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[IndexPool]:
    found = IndexPool(write(tmp_path, [line(1), denied(2)]), clock=iter(range(0, 1000, 10)).__next__)
    yield found
    found.close()


def test_answers_from_an_index_that_is_up_to_date(desk: IndexPool, tmp_path: Path) -> None:
    def count() -> int:
        return asyncio.run(desk.ask(lambda index: len(index.query(Filters()).entries)))

    assert count() == 2
    write(tmp_path, [line(3)])
    assert count() == 3


@pytest.mark.parametrize(("max_age", "seen"), [(0.0, 3), (1.0, 2)])
def test_only_an_exact_pool_sees_what_was_written_within_the_second(
    tmp_path: Path, max_age: float, seen: int
) -> None:
    desk = IndexPool(write(tmp_path, [line(1), denied(2)]), clock=lambda: 5.0, max_age=max_age)

    def count() -> int:
        return asyncio.run(desk.ask(lambda index: len(index.query(Filters()).entries)))

    assert count() == 2
    write(tmp_path, [line(3)])
    assert count() == seen
    desk.close()


def test_gives_up_on_what_takes_too_long(desk: IndexPool) -> None:
    """The thread is busy meanwhile, and others answer."""
    end = threading.Event()

    async def both() -> int:
        with pytest.raises(TooSlowError):
            await desk.work(end.wait, 0.01)
        return await desk.work(lambda: 7)

    try:
        assert asyncio.run(both()) == 7
    finally:
        end.set()


def test_takes_only_so_many_questions(desk: IndexPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desks, "MAX_WAITING_QUERIES", -desks.THREAD_COUNT)
    with pytest.raises(BusyError):
        asyncio.run(desk.work(lambda: 7))


def _fail(kind: type[Exception]) -> Callable[[], int]:
    def work() -> int:
        raise kind("no")

    return work


def test_hands_on_what_went_wrong(desk: IndexPool, tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        asyncio.run(desk.work(_fail(KeyError)))
    nothing = IndexPool(tmp_path / "nothing")
    with pytest.raises(UnreadableError):
        asyncio.run(nothing.ask(lambda index: index.state()))
    nothing.close()
