"""Turns of the event loop, handed out to sandboxes by the time that they take. Pure: the clock is handed in.

The loop serves all sandboxes in one thread, so whatever it does for one keeps all others waiting. A *round*
is one pass of the loop over everything that is ready. In a round a sandbox may take the time of one turn,
over all its connections and in whatever protocol. Work is done at once while the sandbox has time left; the
worker asks `is_over` between small steps, and what is left then waits (`wait`) and goes on in a later round.

In each round the time of one turn goes to work that waits: to the next sandbox in a circle, and there to the
work that waits longest; what that leaves of the time goes to the sandboxes behind it. A round costs as much
as many a small step, such as the look at the times of an idle connection. So a sandbox that wants more than
its share waits for itself, and one that wants little is served in the round in which its bytes come. Nothing
is saved up: a sandbox that was quiet for a minute may take no more in a round than any other.

Some steps cannot be cut, such as a TLS handshake. Time above a turn is owed: it counts for the rounds that
follow, until it is made up for.

A request takes several rounds, and between them the loop waits for an upstream. A sandbox that wants all
there is would fill each of these gaps, and its neighbour would wait for a turn of it in every round. So a
sandbox that has worked for long rests while another one is active: it works for half of the time, and a small
request of its neighbour waits for one turn in all. Nobody rests beside sandboxes that are idle.

    enter, leave    around everything that is done for a sandbox; they may be nested
    is_over         the time of the turn is used up
    wait            do this in a later round
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

TURN_SECONDS: Final = 0.0004
"""Time of the loop that a sandbox may take in a round."""
LONE_TURN_SECONDS: Final = 0.004
"""The same of a sandbox that shares the loop with no other: longer turns are less work."""
MAX_EVENTS_PER_ROUND: Final = 4
"""Ready sockets of a sandbox that are looked at in a round, where each of them is little work."""
MAX_OWED_SECONDS: Final = 0.05
"""Time that a sandbox can owe: a step seems longer than it was where the machine stood still."""

ACTIVE_SECONDS: Final = 0.001
"""A sandbox is active for so long after each of its steps: an upstream nearby has answered by then."""
BURST_SECONDS: Final = 0.004
"""Time that a sandbox may take without a rest, such as for a new connection with its handshakes."""
MAX_REST_SECONDS: Final = 0.001
"""The longest rest, unless a single step took longer: such a step is made up for in full."""

_LEFT_FOR_OTHERS: Final = 0.5
"""Part of a turn that has to be left in a round for the next sandbox to have it."""
_TIMES_OF_WORK: Final = 2
"""Work and rest together, as a multiple of the work."""
_USUAL_OF: Final = 8
"""Times that count for what is usual."""

Work = Callable[[], object]


class Turn(Protocol):
    """The turn of whoever works now, as the pure rooms see it."""

    @property
    def is_over(self) -> bool:
        """The time is used up: what is left must wait."""
        ...


class EndlessTurn:
    """A turn that is never over, where nobody else waits."""

    __slots__ = ()

    is_over = False


ENDLESS_TURN: Final = EndlessTurn()


class Turns:
    """The turns of one event loop."""

    def __init__(
        self,
        clock: Callable[[], float],
        call_soon: Callable[[Work], object],
        call_later: Callable[[float, Work], object] | None = None,
    ) -> None:
        """`clock` gives seconds. `call_soon` calls its argument once, at the beginning of the next round.

        `call_later` does so after some seconds; without it rounds follow each other while all rest.
        """
        self.clock = clock
        self._call_soon = call_soon
        self._call_later = call_later
        self._sandboxes: dict[str, SandboxTurns] = {}
        self._circle: deque[SandboxTurns] = deque()
        """Sandboxes with work that waits."""
        self._is_asked = False
        self._is_sleeping = False
        """A round is asked for behind the rest of all whose work waits."""
        self._is_counted = False
        self._latest: SandboxTurns | None = None
        """The sandbox that was active last."""
        self._latest_at = 0.0
        self._earlier_at = 0.0
        """When a sandbox other than the latest one was active last."""
        self._expected: set[SandboxTurns] = set()
        """Sandboxes whose sockets are looked at in this round, until they are."""
        self.round = 0
        self.seconds = LONE_TURN_SECONDS
        """The time of a turn."""

    def of(self, sandbox: str) -> SandboxTurns:
        """Return the turns of this sandbox."""
        found = self._sandboxes.get(sandbox)
        if found is None:
            found = self._sandboxes[sandbox] = SandboxTurns(self)
            self._measure()
        return found

    def forget(self, sandbox: str) -> None:
        """Drop a sandbox that has ended; work of it that waits is still done."""
        self._sandboxes.pop(sandbox, None)
        self._measure()

    @property
    def is_shared(self) -> bool:
        """More than one sandbox has turns."""
        return len(self._sandboxes) > 1

    def count_round(self) -> None:
        """Count a round. A loop that calls this in each of its rounds need not be asked for them."""
        self.round += 1
        self._is_counted = True
        self._expected.clear()

    def _measure(self) -> None:
        self.seconds = TURN_SECONDS if self.is_shared else LONE_TURN_SECONDS

    def expect(self, sandboxes: Iterable[SandboxTurns]) -> None:
        """Let sandboxes whose sockets are looked at in this round go before others that have had more."""
        self._expected.update(sandboxes)

    # Calls of the sandboxes

    def note_entered(self, sandbox: SandboxTurns) -> None:
        """It is worked for a sandbox."""
        self._expected.discard(sandbox)

    def is_behind_another(self, sandbox: SandboxTurns) -> bool:
        """Tell whether a sandbox that has had less than this one is still to come in this round."""
        return any(each.rested_at < sandbox.rested_at for each in self._expected)

    def note_active(self, sandbox: SandboxTurns, now: float) -> None:
        """Note that a sandbox has something to do now."""
        if sandbox is not self._latest:
            self._latest, self._earlier_at = sandbox, self._latest_at
        self._latest_at = now

    def others_active_until(self, sandbox: SandboxTurns) -> float:
        """Return until when another sandbox counts as active."""
        return (self._earlier_at if sandbox is self._latest else self._latest_at) + ACTIVE_SECONDS

    def note_used(self) -> None:
        """A sandbox has taken time in this round: it has to end."""
        if not self._is_counted:
            self._ask()

    def note_waiting(self, sandbox: SandboxTurns) -> None:
        """Give this sandbox a turn in one of the next rounds."""
        self._circle.append(sandbox)
        self._ask()

    def _ask(self) -> None:
        if not self._is_asked:
            self._is_asked = True
            self._call_soon(self._begin_round)

    def _begin_round(self) -> None:
        self._is_asked = False
        if not self._is_counted:
            self.round += 1
        circle = self._circle
        has_worked, left = False, self.seconds
        for _ in range(len(circle)):
            sandbox = circle.popleft()
            # Who owes lets the turn pass. If all do, the rounds are short until one has made up for it.
            if sandbox.is_spent:
                circle.append(sandbox)
                continue
            has_worked = True
            try:
                left -= sandbox.take_turn(left)
            finally:
                if sandbox.has_waiting:
                    circle.append(sandbox)
                if circle:
                    self._ask()
            if left < self.seconds * _LEFT_FOR_OTHERS:
                return
        if circle and not has_worked:
            self._ask_again()

    def _ask_again(self) -> None:
        """Ask for a round in which somebody has a turn: where all rest, behind the first of the rests."""
        now = self.clock()
        rest = min(sandbox.rest_seconds(now) for sandbox in self._circle)
        if rest <= 0 or self._call_later is None:
            self._ask()
        elif not self._is_sleeping:
            self._is_sleeping = True
            self._call_later(rest, self._wake)

    def _wake(self) -> None:
        self._is_sleeping = False
        if self._circle:
            self._ask()


class SandboxTurns:
    """The turns of one sandbox."""

    __slots__ = (
        "_charged",
        "_deadline",
        "_depth",
        "_is_working",
        "_rested_at",
        "_round",
        "_seen",
        "_since",
        "_spent",
        "_turns",
        "_usual",
        "_waiting",
    )

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._spent = 0.0
        """Time taken in the round that was seen last, with what was owed of earlier ones."""
        self._round = 0
        self._seen = 0.0
        self._depth = 0
        self._since = 0.0
        self._deadline = 0.0
        self._usual = 0.0
        """What it took to work for the sandbox once, of late; one dear step counts for the next few."""
        self._charged = 0.0
        """Time counted for work that is done later."""
        self._rested_at = 0.0
        """When the sandbox will have rested from all of its work."""
        self._is_working = False
        """The work that waits is being done."""
        self._waiting: deque[Work] = deque()

    @property
    def is_over(self) -> bool:
        """The time of the turn is used up."""
        return self._turns.clock() >= self._deadline

    @property
    def is_spent(self) -> bool:
        """The sandbox has had its time in this round, or rests, or lets another one go first."""
        turns = self._turns
        now = turns.clock()
        self._forgive(now)
        return self._spent >= turns.seconds or self.rest_seconds(now) > 0 or turns.is_behind_another(self)

    @property
    def rested_at(self) -> float:
        """When the sandbox will have rested from all of its work: the earlier, the less it has had."""
        return self._rested_at

    @property
    def events(self) -> int:
        """How many ready sockets of the sandbox may be looked at in this round, by what they took so far."""
        if self.is_spent:
            return 0
        fitting = (
            int((self._turns.seconds - self._spent) / self._usual) if self._usual else MAX_EVENTS_PER_ROUND
        )
        return 1 if self._waiting else min(max(fitting, 1), MAX_EVENTS_PER_ROUND)

    @property
    def usual_seconds(self) -> float:
        """What it took to work for the sandbox once, of late."""
        return self._usual

    @property
    def has_waiting(self) -> bool:
        """Work of the sandbox waits for a turn."""
        return bool(self._waiting)

    def note_ready(self) -> None:
        """Note that something has come for the sandbox, before it is looked at."""
        self._turns.note_active(self, self._turns.clock())

    def enter(self) -> None:
        """Begin to work for the sandbox."""
        self._depth += 1
        if self._depth == 1:
            turns = self._turns
            self._since = now = turns.clock()
            self._charged = 0.0
            turns.note_entered(self)
            self._forgive(now)
            # Work that waits goes first: new work of the sandbox finds its turn over.
            self._deadline = now if self._waiting else now + turns.seconds - self._spent

    def leave(self) -> None:
        """End the work that `enter` began."""
        self._depth -= 1
        if self._depth == 0:
            turns = self._turns
            self._seen = now = turns.clock()
            took = now - self._since
            worked = took - self._charged
            self._spent = min(self._spent + took, MAX_OWED_SECONDS)
            self._usual = max(worked, self._usual + (worked - self._usual) / _USUAL_OF)
            self._rested_at = min(
                max(self._rested_at, self._since) + took * _TIMES_OF_WORK,
                now + BURST_SECONDS + max(MAX_REST_SECONDS, took),
            )
            turns.note_active(self, now)
            turns.note_used()

    def charge(self, seconds: float) -> None:
        """Count time for work that this turn grants, and that is done later."""
        self._since -= seconds
        self._charged += seconds
        self._deadline -= seconds

    def wait(self, work: Work) -> None:
        """Do this in a turn of the sandbox, behind all that waits already."""
        self._waiting.append(work)
        if len(self._waiting) == 1 and not self._is_working:
            self._turns.note_waiting(self)

    def take_turn(self, seconds: float) -> float:
        """Do the work that waits longest, and more of it in so many seconds; return how many it took."""
        waiting = self._waiting
        self._is_working = True
        self.enter()
        self._deadline = self._since + seconds
        try:
            # What comes back for another turn waits behind the rest, and is not counted here.
            for _ in range(len(waiting)):
                waiting.popleft()()
                if self.is_over:
                    break
        finally:
            self._is_working = False
            self.leave()
        return self._seen - self._since

    def rest_seconds(self, now: float) -> float:
        """Return for how long the sandbox leaves the loop to others that are active; 0 or less for none."""
        turns = self._turns
        left = self._rested_at - BURST_SECONDS - now
        return min(left, turns.others_active_until(self) - now) if left > 0 and turns.is_shared else 0.0

    def _forgive(self, now: float) -> None:
        """Take off what the rounds since then have made up for, or half of the time that has passed."""
        turns = self._turns
        rounds = turns.round - self._round
        if rounds:
            self._round = turns.round
            self._spent = max(self._spent - max(rounds * turns.seconds, (now - self._seen) / 2), 0.0)
