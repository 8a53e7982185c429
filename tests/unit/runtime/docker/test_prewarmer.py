"""What is made ahead is taken once, bounded, and ended with its shelf."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from egress.runtime.docker import prewarmer as module
from egress.runtime.docker.prewarmer import Prewarmer
from egress.runtime.errors import EngineError


class Maker:
    def __init__(self) -> None:
        self.made: list[int] = []
        self.ended: list[int] = []
        self.fails = 0
        self.tried = threading.Event()

    def make(self) -> int:
        self.tried.set()
        if self.fails:
            self.fails -= 1
            raise EngineError("busy")
        self.made.append(len(self.made))
        return self.made[-1]


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> Maker:
    monkeypatch.setattr(module, "_REFILL_DELAY", 0.0)
    monkeypatch.setattr(module, "_RETRY_INTERVAL", 0.01)
    return Maker()


@pytest.fixture
def shelf(maker: Maker) -> Iterator[Prewarmer[int]]:
    shelf = Prewarmer("test", maker.make, maker.ended.append)
    yield shelf
    shelf.close()


def until(shelf: Prewarmer[int], is_so: Callable[[], bool]) -> None:
    with shelf._changed:
        assert shelf._changed.wait_for(is_so, 30)


def test_nothing_is_made_that_nobody_wants(maker: Maker, shelf: Prewarmer[int]) -> None:
    assert shelf.take() is None
    assert shelf.until_ready(0)
    assert maker.made == []


def test_each_is_given_once_and_another_made_in_its_place(maker: Maker, shelf: Prewarmer[int]) -> None:
    shelf.want(2)
    assert shelf.until_ready(30)
    assert maker.made == [0, 1]
    assert [shelf.take(), shelf.take()] == [0, 1]
    assert shelf.until_ready(30)
    assert maker.made == [0, 1, 2, 3]
    assert maker.ended == []


def test_a_thing_that_is_wanted_no_more_is_not_made_in_place_of_one_that_was_taken(
    maker: Maker, shelf: Prewarmer[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the maker waits until the taker has had the machine to itself."""
    monkeypatch.setattr(module, "_REFILL_DELAY", 0.05)
    shelf.want(1)
    assert shelf.until_ready(30)
    assert shelf.take() == 0
    # By now the maker has seen that one is missing, and waits.
    shelf.want(0)
    shelf.close()
    assert maker.made == [0]


def test_a_taker_need_not_wait_for_the_one_that_is_being_made(maker: Maker) -> None:
    may_go_on = threading.Event()

    def make() -> int:
        maker.tried.set()
        assert may_go_on.wait(30)
        return maker.make()

    shelf = Prewarmer("test", make, maker.ended.append)
    shelf.want(1)
    assert maker.tried.wait(30)
    assert shelf.take(awaits=False) is None
    may_go_on.set()
    assert shelf.take() == 0
    shelf.close()


def test_what_is_too_many_is_ended(maker: Maker, shelf: Prewarmer[int]) -> None:
    shelf.want(3)
    assert shelf.until_ready(30)
    shelf.want(1)
    assert sorted(maker.ended) == [1, 2]
    shelf.close()
    assert sorted(maker.ended) == [0, 1, 2]
    shelf.want(5)
    assert maker.made == [0, 1, 2]


def test_what_could_not_be_made_is_tried_again(maker: Maker, shelf: Prewarmer[int]) -> None:
    maker.fails = 3
    shelf.want(1)
    assert shelf.until_ready(30)
    assert (maker.fails, maker.made) == (0, [0])


def test_it_can_be_closed_while_one_fails(maker: Maker) -> None:
    maker.fails = 1_000_000
    shelf = Prewarmer("test", maker.make, maker.ended.append)
    shelf.want(1)
    assert maker.tried.wait(30)
    shelf.close()
    assert maker.made == []


def slowly(maker: Maker, go_on: threading.Event) -> Prewarmer[int]:
    """A shelf whose first thing is being made until `go_on`."""

    def make() -> int:
        maker.tried.set()
        assert go_on.wait(30)
        return maker.make()

    found = Prewarmer("test", make, maker.ended.append)
    found.want(1)
    assert maker.tried.wait(30)
    return found


def taken_aside(shelf: Prewarmer[int], taken: list[int | None]) -> threading.Thread:
    thread = threading.Thread(target=lambda: taken.append(shelf.take()))
    thread.start()
    return thread


@pytest.mark.parametrize("fails", [0, 1])
def test_the_one_that_is_being_made_is_waited_for(maker: Maker, fails: int) -> None:
    maker.fails, go_on, taken = fails, threading.Event(), list[int | None]()
    shelf = slowly(maker, go_on)
    waiting = taken_aside(shelf, taken)
    until(shelf, lambda: shelf._is_awaited)
    # There is one, so a second taker is not kept waiting for it.
    assert shelf.take() is None
    go_on.set()
    waiting.join(30)
    assert taken == [None if fails else 0]
    shelf.close()


def test_whoever_waits_for_one_goes_away_empty_when_it_is_closed(maker: Maker) -> None:
    go_on, taken = threading.Event(), list[int | None]()
    shelf = slowly(maker, go_on)
    waiting = taken_aside(shelf, taken)
    until(shelf, lambda: shelf._is_awaited)
    closing = threading.Thread(target=shelf.close)
    closing.start()
    until(shelf, lambda: shelf._is_closed)
    go_on.set()
    waiting.join(30)
    closing.join(30)
    assert (taken, maker.ended) == ([None], [0])


def test_nobody_waits_for_one_that_is_wanted_no_more(maker: Maker) -> None:
    go_on, taken = threading.Event(), list[int | None]()
    shelf = slowly(maker, go_on)
    waiting = taken_aside(shelf, taken)
    until(shelf, lambda: shelf._is_awaited)
    shelf.want(0)
    waiting.join(30)
    assert taken == [None]
    go_on.set()
    shelf.close()
    assert maker.ended == [0]
