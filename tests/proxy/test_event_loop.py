"""The event loop takes a few events of each sandbox in a round, and drives coroutines by turns."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator

import pytest

from egress.proxy.event_loop import COARSE_SECONDS, FairEventLoop, FairSelector, drive, make_turns, watch
from egress.shares.turns import ACTIVE_SECONDS, MAX_EVENTS_PER_ROUND, MAX_REST_SECONDS, TURN_SECONDS, Turns

MANY = 5 * MAX_EVENTS_PER_ROUND


class Clock:
    """A clock that stands, until a test says otherwise."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ready() -> Iterator[Callable[[int], list[socket.socket]]]:
    """Makes sockets that are ready to be read."""
    made: list[socket.socket] = []

    def make(count: int) -> list[socket.socket]:
        found = []
        for _ in range(count):
            near, far = socket.socketpair()
            far.send(b"x")
            made.extend((near, far))
            found.append(near)
        return found

    yield make
    for sock in made:
        sock.close()


class Selected:
    """A selector with ready sockets of sandboxes, and what it gives out."""

    def __init__(self, make: Callable[[int], list[socket.socket]]) -> None:
        self.selector = FairSelector()
        self.clock = Clock()
        self.turns = self.selector.turns = Turns(self.clock, lambda _: None)
        self.owner: dict[int, str] = {}
        self.make = make

    def add(self, name: str, count: int) -> None:
        """Register ready sockets; those without a name belong to no sandbox."""
        for sock in self.make(count):
            self.selector.register(sock, 1)
            self.owner[sock.fileno()] = name
            if name:
                self.selector.watch(sock.fileno(), self.turns.of(name))

    def select(self) -> list[int]:
        return [key.fd for key, _ in self.selector.select(0)]

    def counts(self) -> dict[str, int]:
        found = [self.owner[number] for number in self.select()]
        return {name: found.count(name) for name in sorted(set(found))}


@pytest.fixture
def selected(ready: Callable[[int], list[socket.socket]]) -> Iterator[Selected]:
    made = Selected(ready)
    yield made
    made.selector.close()


def test_a_round_has_a_few_events_of_each_sandbox(selected: Selected) -> None:
    selected.add("flood", MANY)
    selected.add("victim", 2)
    selected.add("", MANY)
    assert selected.counts() == {"": MANY, "flood": MAX_EVENTS_PER_ROUND, "victim": 2}


def test_sockets_that_were_dear_so_far_come_one_at_a_time(selected: Selected) -> None:
    """Each may be a handshake: four of them at once would be four times the wait."""
    selected.add("flood", MANY)
    selected.add("victim", 2)
    turns = selected.turns.of("flood")
    for _ in range(20):
        turns.enter()
        selected.clock.now += 2 * TURN_SECONDS
        turns.leave()
    assert "flood" not in selected.counts(), "it owes several turns"
    for _ in range(100):
        selected.select()
    assert "flood" not in selected.counts(), "it rests, after so much work"
    selected.clock.now += MAX_REST_SECONDS
    assert selected.counts() == {"flood": 1, "victim": 2}


def test_one_that_has_had_less_goes_first(selected: Selected) -> None:
    selected.add("flood", 1)
    selected.add("victim", 1)
    turns = selected.turns.of("flood")
    turns.enter()
    selected.clock.now += TURN_SECONDS / 2
    turns.leave()
    assert [selected.owner[number] for number in selected.select()] == ["victim", "flood"]


def test_a_selection_of_nothing_but_what_rests_returns(selected: Selected) -> None:
    """The loop looks at its timers and sockets again, however long it would wait."""
    selected.add("flood", MANY)
    turns = selected.turns.of("flood")
    for _ in range(20):
        turns.enter()
        selected.clock.now += TURN_SECONDS
        turns.leave()
        selected.turns.count_round()
    selected.turns.of("victim").note_ready()
    assert selected.selector.select(None) == []
    selected.clock.now += ACTIVE_SECONDS
    assert selected.selector.select(None) != []


def test_a_short_wait_ends_with_what_comes(selected: Selected) -> None:
    selected.turns.of("other")
    assert selected.selector.select(COARSE_SECONDS / 2) == []
    selected.add("victim", 1)
    assert len(selected.selector.select(COARSE_SECONDS / 2)) == 1


def test_a_sandbox_with_work_that_waits_has_one_event_at_a_time(selected: Selected) -> None:
    selected.add("flood", MANY)
    selected.add("victim", 1)
    selected.turns.of("flood").wait(lambda: None)
    assert selected.counts() == {"flood": 1, "victim": 1}


def test_every_socket_of_a_sandbox_comes_within_a_few_rounds(selected: Selected) -> None:
    """One that is always ready keeps no other of its sandbox waiting."""
    selected.add("flood", MANY)
    selected.add("victim", 1)
    seen = {number for _ in range(2 * MANY // MAX_EVENTS_PER_ROUND) for number in selected.select()}
    assert len(seen) == MANY + 1


def test_a_sandbox_that_is_alone_has_all_of_its_events(selected: Selected) -> None:
    selected.add("alone", MANY)
    assert selected.counts() == {"alone": MANY}


def test_each_selection_is_a_round(selected: Selected) -> None:
    before = selected.turns.round
    selected.select()
    selected.select()
    assert selected.turns.round == before + 2


def test_without_turns_everything_that_is_ready_comes(selected: Selected) -> None:
    selected.add("one", MANY)
    selected.add("other", 1)
    selected.selector.turns = None
    assert len(selected.select()) == MANY + 1


def test_a_number_that_is_used_again_belongs_to_its_new_owner(selected: Selected) -> None:
    """A connection that ends late must not set free the one that came after it."""
    selected.add("victim", 1)
    selected.add("flood", MANY)
    turns = selected.turns.of("flood")
    numbers = [number for number, name in selected.owner.items() if name == "flood"]
    late = [selected.selector.watch(number, turns) for number in numbers]
    newer = [selected.selector.watch(number, turns) for number in numbers]
    for watched in late:
        watched.forget()
    assert selected.counts()["flood"] == MAX_EVENTS_PER_ROUND
    for watched in newer:
        watched.forget()
    assert selected.counts()["flood"] == MANY


def in_fair_loop(story: Callable[[], object]) -> None:
    async def run() -> None:
        await story()  # type: ignore[misc]

    asyncio.run(run(), loop_factory=FairEventLoop)


def test_the_loop_counts_the_rounds_of_its_turns_and_watches_sockets(
    ready: Callable[[int], list[socket.socket]],
) -> None:
    async def story() -> None:
        turns = make_turns(Clock())
        (sock,) = ready(1)
        watched = watch(sock, turns.of("one"))
        loop = asyncio.get_running_loop()
        assert isinstance(loop, FairEventLoop)
        assert loop.selector._watched == {sock.fileno(): watched}
        before = turns.round
        await asyncio.sleep(0)
        assert turns.round > before
        watched.forget()
        assert loop.selector._watched == {}

    in_fair_loop(story)


async def test_in_another_loop_nothing_is_watched(ready: Callable[[int], list[socket.socket]]) -> None:
    turns = make_turns(Clock())
    (sock,) = ready(1)
    watch(sock, turns.of("one")).forget()


# Coroutines -----------------------------------------------------------------------------------------


async def test_a_driven_coroutine_does_what_it_would_do_alone() -> None:
    turns = make_turns(Clock()).of("one")
    events: list[str] = []

    async def story() -> str:
        for number in range(3):
            await asyncio.sleep(0)
            events.append(f"step {number}")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        return "done"

    assert await drive(turns, story) == "done"
    assert events == ["step 0", "step 1", "step 2"]

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        await drive(turns, fail)


async def test_steps_are_measured_and_wait_for_a_turn_of_their_sandbox() -> None:
    clock = Clock()
    turns = make_turns(clock)
    turns.of("other")
    events: list[str] = []

    async def steps(name: str) -> None:
        for _ in range(3):
            events.append(name)
            clock.now += TURN_SECONDS
            await asyncio.sleep(0)

    flood = [asyncio.create_task(drive(turns.of("flood"), lambda: steps("flood"))) for _ in range(10)]
    await asyncio.sleep(0)
    assert events == ["flood"], "the first one has used up the turn"
    victim = asyncio.create_task(drive(turns.of("victim"), lambda: steps("victim")))
    await victim
    assert events.count("victim") == 3
    assert events.count("flood") < 15
    # Nobody is active any more, so nobody rests: the clock of the test stands unless it is told to go on.
    clock.now += 1.0
    await asyncio.gather(*flood)
    assert events.count("flood") == 30


async def test_a_turn_grants_as_many_steps_as_would_fit() -> None:
    """Each of them is measured only later: four handshakes in one round would be four times the wait."""
    clock = Clock()
    turns = make_turns(clock)
    turns.of("other")
    flood = turns.of("flood")
    rounds: list[int] = []

    async def steps() -> None:
        for _ in range(3):
            rounds.append(turns.round)
            clock.now += seconds
            await asyncio.sleep(0)

    seconds = TURN_SECONDS
    await asyncio.gather(*(drive(flood, steps) for _ in range(6)))
    dear, rounds = rounds[6:], []
    clock.now += 1.0
    seconds = TURN_SECONDS / 20
    await asyncio.gather(*(drive(flood, steps) for _ in range(6)))
    assert max(dear.count(number) for number in dear) == 1
    assert max(rounds.count(number) for number in rounds) > 1, "cheap ones share a round"


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_a_cancellation_reaches_the_coroutine(*, is_waiting: bool) -> None:
    clock = Clock()
    turns = make_turns(clock).of("one")
    events: list[str] = []

    async def story() -> None:
        try:
            await asyncio.sleep(0)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            events.append("cancelled")
            raise

    task = asyncio.create_task(drive(turns, story))
    await asyncio.sleep(0)
    if is_waiting:
        # It has had its share, so its next step waits.
        turns.enter()
        clock.now += 1.0
        turns.leave()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert events == ["cancelled"]


async def test_a_coroutine_that_is_cancelled_before_it_began_leaves_nothing_behind() -> None:
    async def story() -> None:
        raise AssertionError("it began")

    task = asyncio.create_task(drive(make_turns(Clock()).of("one"), story))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
