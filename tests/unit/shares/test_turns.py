"""Turns: how much a sandbox may do in a round, and who goes on in the next one; by a clock of the test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from egress.shares.turns import (
    ACTIVE_SECONDS,
    BURST_SECONDS,
    ENDLESS_TURN,
    LONE_TURN_SECONDS,
    MAX_EVENTS_PER_ROUND,
    MAX_OWED_SECONDS,
    MAX_REST_SECONDS,
    TURN_SECONDS,
    SandboxTurns,
    Turns,
    Work,
)

UNIT = TURN_SECONDS / 4
"""The time of a small step."""


class Loop:
    """A loop without events: work takes the time that it says, and rounds begin when they are told to."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due: list[Work] = []
        self.later: list[tuple[float, Work]] = []
        self.turns = Turns(lambda: self.now, self.due.append)
        self.done: list[str] = []

    def round(self) -> None:
        """Begin a round."""
        due, self.due[:] = self.due.copy(), []
        for work in due:
            work()

    def works(self, sandbox: SandboxTurns, units: float) -> bool:
        """Work for a sandbox; whether its turn was over then."""
        sandbox.enter()
        self.now += units * UNIT
        is_over = sandbox.is_over
        sandbox.leave()
        return is_over

    def job(self, name: str, units: float = 1.0, *, times: int = 1) -> Callable[[], None]:
        """Work that takes a while, and so many turns."""
        left = times

        def work() -> None:
            nonlocal left
            self.now += units * UNIT
            self.done.append(name)
            left -= 1
            if left:
                self.turns.of(name[0]).wait(work)

        return work


@pytest.fixture
def loop() -> Loop:
    return Loop()


def over(turn: SandboxTurns) -> bool:
    return turn.is_over


def spent(sandbox: SandboxTurns) -> bool:
    return sandbox.is_spent


def two(loop: Loop) -> tuple[SandboxTurns, SandboxTurns]:
    return loop.turns.of("a"), loop.turns.of("b")


def test_in_a_round_a_sandbox_has_the_time_of_one_turn_over_all_it_does(loop: Loop) -> None:
    a, b = two(loop)
    assert [loop.works(a, 1) for _ in range(6)] == [False, False, False, True, True, True]
    assert not loop.works(b, 1), "another one has its own"
    loop.round()
    assert [loop.works(a, 1) for _ in range(3)] == [False, True, True], "two units were owed"


def test_nothing_is_saved_up(loop: Loop) -> None:
    a, _ = two(loop)
    loop.works(a, 1)
    for _ in range(100):
        loop.round()
        loop.now += 1.0
    assert [loop.works(a, 1) for _ in range(4)] == [False, False, False, True]


def test_a_sandbox_that_is_alone_has_longer_turns(loop: Loop) -> None:
    alone = loop.turns.of("a")
    assert not loop.works(alone, 5)
    assert loop.works(alone, LONE_TURN_SECONDS / UNIT)
    loop.turns.of("b")
    assert loop.turns.seconds == TURN_SECONDS
    loop.turns.forget("b")
    loop.turns.forget("b")
    assert loop.turns.seconds == LONE_TURN_SECONDS
    assert loop.turns.of("a") is alone


def test_what_waits_gets_one_turn_in_a_round_by_turns(loop: Loop) -> None:
    """However much one sandbox wants, another one waits for one turn of it."""
    a, b = two(loop)
    for number in range(6):
        a.wait(loop.job(f"a{number}", 4))
    b.wait(loop.job("b0", 4))
    b.wait(loop.job("b1", 4))
    for _ in range(9):
        loop.round()
    assert loop.done == ["a0", "b0", "a1", "b1", "a2", "a3", "a4", "a5"]


def test_a_turn_takes_as_much_small_work_as_fits(loop: Loop) -> None:
    a, b = two(loop)
    for number in range(10):
        a.wait(loop.job(f"a{number}"))
    b.wait(loop.job("b"))
    loop.round()
    assert loop.done == ["a0", "a1", "a2", "a3"]
    loop.round()
    assert loop.done[4:] == ["b", "a4", "a5", "a6"], "what is left of a turn goes to the next one"


def test_small_work_of_many_sandboxes_is_done_in_a_few_rounds(loop: Loop) -> None:
    """A round costs more than such work: a thousand looks at idle connections were a thousand rounds."""
    names = [chr(number) for number in range(ord("a"), ord("a") + 20)]
    for name in names:
        loop.turns.of(name).wait(loop.job(name, 0.1))
    loop.round()
    assert loop.done == names


def test_small_work_of_others_makes_no_round_longer_than_a_turn_and_a_half(loop: Loop) -> None:
    names = [chr(number) for number in range(ord("a"), ord("a") + 20)]
    for name in names:
        loop.turns.of(name).wait(loop.job(name, 1.9))
    began = loop.now
    loop.round()
    assert loop.now - began <= 1.5 * TURN_SECONDS
    assert loop.done == names[:2]
    for _ in range(9):
        loop.round()
    assert loop.done == names


def test_a_fault_keeps_nobody_behind_it_from_its_turn(loop: Loop) -> None:
    a, b = two(loop)

    def fail() -> None:
        raise RuntimeError("a bug")

    a.wait(fail)
    b.wait(loop.job("b", 0.1))
    with pytest.raises(RuntimeError):
        loop.round()
    assert loop.done == []
    loop.round()
    assert loop.done == ["b"]


def test_work_that_comes_back_waits_behind_the_rest(loop: Loop) -> None:
    a, _ = two(loop)
    a.wait(loop.job("a long", 4, times=3))
    a.wait(loop.job("a short"))
    for _ in range(8):
        loop.round()
    assert loop.done == ["a long", "a short", "a long", "a long"]


def test_new_work_finds_the_turn_over_while_other_work_waits(loop: Loop) -> None:
    a, _ = two(loop)
    a.wait(loop.job("a"))
    assert loop.works(a, 0)
    loop.round()
    assert not loop.works(a, 1)


def test_a_step_that_cannot_be_cut_is_made_up_for(loop: Loop) -> None:
    a, b = two(loop)
    a.wait(loop.job("a dear", 13))
    for number in range(4):
        a.wait(loop.job(f"a{number}", 4))
        b.wait(loop.job(f"b{number}", 4))
    for _ in range(4):
        loop.round()
    # More than three turns at once, so two turns of it pass to the other one.
    assert loop.done == ["a dear", "b0", "b1", "a0"]


def test_what_is_owed_is_bounded(loop: Loop) -> None:
    a, _ = two(loop)
    loop.works(a, 1e6)
    for _ in range(int(MAX_OWED_SECONDS / TURN_SECONDS) - 2):
        loop.turns.count_round()
    assert a.is_spent
    for _ in range(3):
        loop.turns.count_round()
    assert not a.is_spent


def test_what_is_owed_is_forgiven_with_time(loop: Loop) -> None:
    """Where the loop was idle nobody has waited."""
    a, _ = two(loop)
    loop.works(a, 40)
    loop.round()
    loop.now += 1.0
    loop.round()
    assert not a.is_spent


def test_a_fault_of_work_that_waits_stops_nobody(loop: Loop) -> None:
    a, b = two(loop)

    def fail() -> None:
        raise RuntimeError("a bug")

    a.wait(fail)
    a.wait(loop.job("a"))
    b.wait(loop.job("b"))
    with pytest.raises(RuntimeError):
        loop.round()
    for _ in range(3):
        loop.round()
    assert sorted(loop.done) == ["a", "b"]


def test_turns_may_be_nested(loop: Loop) -> None:
    a, _ = two(loop)
    a.enter()
    for _ in range(3):
        loop.works(a, 1)
    assert over(a) is False
    loop.works(a, 1)
    assert over(a) is True
    a.leave()
    assert a.is_spent


def test_a_grant_counts_the_time_that_it_gives_away(loop: Loop) -> None:
    a, _ = two(loop)
    a.enter()
    a.charge(3 * UNIT)
    assert over(a) is False
    a.charge(2 * UNIT)
    assert over(a) is True
    a.leave()
    assert a.is_spent


def test_a_loop_that_counts_its_rounds_is_not_asked_for_them(loop: Loop) -> None:
    a, _ = two(loop)
    loop.turns.count_round()
    loop.works(a, 8)
    assert loop.due == []
    loop.turns.count_round()
    loop.turns.count_round()
    assert not a.is_spent
    a.wait(loop.job("a"))
    assert len(loop.due) == 1


def test_an_endless_turn_is_never_over() -> None:
    assert not ENDLESS_TURN.is_over


def saturated(loop: Loop, sandbox: SandboxTurns) -> None:
    """Let a sandbox work for so long that it has to rest beside others; its rounds are made up for."""
    for _ in range(int(2 * BURST_SECONDS / TURN_SECONDS)):
        loop.works(sandbox, 4)
        loop.turns.count_round()


def test_whoever_has_worked_for_long_rests_while_another_is_active(loop: Loop) -> None:
    """So the answer to a small request, which comes a moment later, finds the loop free."""
    a, b = two(loop)
    saturated(loop, a)
    loop.turns.count_round()
    assert not spent(a), "beside one that is idle nobody rests"
    loop.works(b, 1)
    loop.turns.count_round()
    assert spent(a)
    assert a.events == 0
    assert not spent(b)
    loop.now += MAX_REST_SECONDS
    b.note_ready()
    assert not spent(a), "the rest is short, whatever the other one does"


def test_something_that_has_come_is_enough_to_be_active(loop: Loop) -> None:
    a, b = two(loop)
    saturated(loop, a)
    loop.turns.count_round()
    a.note_ready()
    assert not spent(a), "what comes for itself stops nobody"
    b.note_ready()
    assert spent(a)


def test_whoever_rests_lets_its_work_wait(loop: Loop) -> None:
    a, b = two(loop)
    saturated(loop, a)
    loop.turns.count_round()
    a.wait(loop.job("a"))
    b.note_ready()
    for _ in range(20):
        loop.round()
    assert loop.done == []
    loop.now += ACTIVE_SECONDS
    loop.round()
    assert loop.done == ["a"]


def test_two_that_want_all_there_is_work_for_half_of_the_time_each(loop: Loop) -> None:
    a, b = two(loop)
    saturated(loop, a)
    saturated(loop, b)
    began, worked = loop.now, {a: 0, b: 0}
    for _ in range(400):
        loop.turns.count_round()
        for each in (a, b):
            if not each.is_spent:
                loop.works(each, 4)
                worked[each] += 1
        loop.now += UNIT / 100
    assert abs(worked[a] - worked[b]) <= 2
    assert sum(worked.values()) * TURN_SECONDS > 0.9 * (loop.now - began)


def test_a_long_step_is_rested_from_in_full(loop: Loop) -> None:
    a, b = two(loop)
    saturated(loop, a)
    step = 5 * MAX_REST_SECONDS
    loop.works(a, step / UNIT)
    for _ in range(30):
        loop.turns.count_round()
    loop.now += 0.9 * step
    b.note_ready()
    assert spent(a)
    loop.now += 0.2 * step
    b.note_ready()
    assert not spent(a)


def test_a_sandbox_that_wants_little_never_rests(loop: Loop) -> None:
    """Not even in the handshakes of a new connection: it may take a burst."""
    a, b = two(loop)
    for _ in range(50):
        loop.works(a, 6)
        loop.turns.count_round()
        loop.turns.count_round()
        b.note_ready()
        assert not spent(a)
        loop.now += 10 * TURN_SECONDS


def test_one_that_is_alone_never_rests(loop: Loop) -> None:
    a = loop.turns.of("a")
    saturated(loop, a)
    for _ in range(20):
        loop.turns.count_round()
    assert not spent(a)


def test_while_all_rest_the_loop_sleeps(loop: Loop) -> None:
    """It is woken when the first of them has rested, and by work of anybody else."""
    loop.turns = Turns(lambda: loop.now, loop.due.append, lambda *call: loop.later.append(call))
    a, b = two(loop)
    saturated(loop, a)
    for _ in range(9):
        loop.turns.count_round()
    b.note_ready()
    a.wait(loop.job("a"))
    loop.round()
    assert loop.done == []
    assert loop.due == []
    [(seconds, wake)] = loop.later
    assert 0 < seconds <= 1.01 * MAX_REST_SECONDS
    b.wait(loop.job("b"))
    loop.round()
    assert loop.done == ["b"]
    loop.round()
    assert len(loop.later) == 1, "it sleeps already"
    loop.now += ACTIVE_SECONDS + seconds
    wake()
    loop.round()
    assert loop.done == ["b", "a"]
    wake()
    assert loop.due == []


def test_what_is_looked_at_in_this_round_goes_before_other_work_of_those_that_had_more(loop: Loop) -> None:
    a, b = two(loop)
    loop.works(a, 2)
    loop.turns.count_round()
    a.wait(loop.job("a"))
    loop.turns.expect([b])
    assert spent(a)
    assert not spent(b)
    loop.round()
    assert loop.done == []
    loop.works(b, 1)
    assert not spent(a), "it has been looked at"
    loop.round()
    assert loop.done == ["a"]
    loop.turns.expect([b])
    loop.turns.count_round()
    assert not spent(a), "that was another round"


def test_whoever_had_more_is_waited_for_by_nobody(loop: Loop) -> None:
    a, b = two(loop)
    loop.works(a, 2)
    loop.turns.count_round()
    loop.turns.expect([a])
    assert not spent(b)
    assert not spent(a), "nor by itself"


def test_one_dear_step_counts_as_usual_for_the_next_few(loop: Loop) -> None:
    """Four sockets that are ready may be four handshakes, though the events before were cheap ones."""
    a, _ = two(loop)
    for _ in range(20):
        loop.works(a, 0.1)
        loop.turns.count_round()
    assert a.events == MAX_EVENTS_PER_ROUND
    loop.works(a, 4)
    loop.turns.count_round()
    loop.turns.count_round()
    assert a.events == 1
    for _ in range(20):
        loop.works(a, 0.1)
        loop.turns.count_round()
    assert a.events == MAX_EVENTS_PER_ROUND


def test_what_is_charged_is_no_measure_of_what_is_usual(loop: Loop) -> None:
    a, _ = two(loop)
    for _ in range(8):
        a.enter()
        a.charge(1.0)
        a.leave()
    assert a.usual_seconds == 0
