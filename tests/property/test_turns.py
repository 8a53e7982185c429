"""Connections that share a loop whose clock jumps: whatever it shows at each look, every byte arrives.

Relays, turns and selector are those of the proxy; only wires and the loop around them are made of memory. No
second passes: a byte that waits for a tick, or for a turn that nobody hands out, is found to stand still.
"""

from __future__ import annotations

import gzip
import itertools
import os
import selectors
from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack

from h2.settings import SettingCodes
from hypothesis import example, given, settings
from hypothesis import strategies as st

from egress.proxy.event_loop import FairSelector
from egress.relay.ports import CLIENT_WIRE, RelayOrder, YieldTurn
from egress.shares.turns import LONE_TURN_SECONDS, MAX_OWED_SECONDS, TURN_SECONDS, Turns, Work
from tests.attack.test_websocket import ASK, agree, frame
from tests.tiers import examples
from tests.unit.relay.wires import VALUE, Lab, Peer, get, head, post, response

MAX_ROUNDS = 20_000
"""Rounds in which all is done: where the clock jumps at each look, most of them make up for time owed."""
BLOCKED_ROUNDS = 2
READ_BYTES = 16 * 1024
WIDE_BYTES = 1 << 20
BODY = bytes(range(256)) * 160
PACKED = gzip.compress(bytes(300_000) + VALUE)
"""A response that takes several turns to decode."""
UNPACKED = bytes(300_000) + b"*" * len(VALUE)


class JumpingClock:
    """Goes on by one of these steps at each look, over and over."""

    def __init__(self, steps: Iterable[float]) -> None:
        self._steps = itertools.cycle(steps)
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += next(self._steps)
        return self.now


class SharedLoop:
    """What `FairEventLoop` does in a round; a wire is ready where bytes wait for a relay that reads."""

    def __init__(self, clock: JumpingClock, held: ExitStack, *, is_counted: bool, has_timers: bool) -> None:
        """`is_counted`: the loop counts its rounds, else the turns have to ask for each of them.

        `has_timers`: it sleeps while all rest.
        """
        self.clock = clock
        self.due: list[Work] = []
        self.timers: list[tuple[float, Work]] = []
        self.turns = Turns(clock, self.due.append, self._call_later if has_timers else None)
        self.selector = FairSelector()
        held.callback(self.selector.close)
        if is_counted:
            self.selector.turns = self.turns
        self.held = held

    @property
    def is_busy(self) -> bool:
        """Something is due, or can be read."""
        return bool(self.due or self.timers or self.selector.get_map())

    def _call_later(self, seconds: float, work: Work) -> None:
        self.timers.append((self.clock.now + seconds, work))

    def round(self) -> bool:
        """Do what is due and read what is ready; return whether there was anything to do."""
        is_busy = self.is_busy
        ready = self.selector.select(0)
        if self.timers and not (ready or self.due):
            # The loop sleeps, and wakes with the first of them.
            self.clock.now = max(self.clock.now, min(at for at, _ in self.timers))
        self.due += [work for at, work in self.timers if at <= self.clock.now]
        self.timers[:] = [(at, work) for at, work in self.timers if at > self.clock.now]
        due, self.due[:] = self.due.copy(), []
        for work in due:
            work()
        for key, _ in ready:
            key.data()
        return is_busy


class SharedLab(Lab):
    """A relay whose entries are called as the handler of a connection calls them."""

    def __init__(self, loop: SharedLoop, sandbox: str, **options: object) -> None:
        self.loop = loop
        self.sandbox = loop.turns.of(sandbox)
        self.on_the_way: dict[int, deque[bytes]] = {}
        """Bytes that the relay has not read yet, by wire."""
        self._files: dict[int, int] = {}
        super().__init__(**options)  # type: ignore[arg-type]
        self.desk.turn = self.sandbox
        self.is_slow = True
        self.connect(CLIENT_WIRE)

    def connect(self, wire: int) -> None:
        self.on_the_way[wire] = deque()
        file = self._files[wire] = os.eventfd(1, os.EFD_CLOEXEC)
        self.loop.held.callback(os.close, file)
        self.loop.selector.watch(file, self.sandbox)

    def send(self, wire: int, data: bytes, size: int = READ_BYTES) -> None:
        """Let these bytes come, in reads of this size."""
        self.on_the_way[wire] += [data[at : at + size] for at in range(0, len(data), size)]
        self._gate()

    def enter(self, work: Work) -> None:
        """Work in the turn of the sandbox, then open and close the gates: no other moment may change them."""
        self.sandbox.enter()
        try:
            work()
            self._gate()
        finally:
            self.sandbox.leave()

    def do(self, orders: Iterable[RelayOrder]) -> None:
        orders = list(orders)
        super().do(orders)
        for _ in [order for order in orders if isinstance(order, YieldTurn)]:
            self.sandbox.wait(lambda: self.enter(self.again))

    def block(self, *, held: bool) -> None:
        """Let the client take nothing of what is written, or again."""
        self.enter(lambda: self.do(self.relay.blocked(CLIENT_WIRE, blocked=held)))

    def open_in_a_round(self, alpn: str = "") -> None:
        """Let the connections that were asked for stand, in a later round."""
        for wire in list(self.opening):
            self.connect(wire)
            self.enter(lambda wire=wire: self.opens(alpn, wire=wire))  # type: ignore[misc]

    def _gate(self) -> None:
        selector = self.loop.selector
        for wire, file in self._files.items():
            is_ready = bool(self.on_the_way[wire]) and self._is_read(wire)
            if is_ready and file not in selector.get_map():
                selector.register(file, selectors.EVENT_READ, lambda wire=wire: self._read(wire))
            elif not is_ready and file in selector.get_map():
                selector.unregister(file)

    def _is_read(self, wire: int) -> bool:
        return wire not in self.ended and wire not in self.opening and self.relay.reads(wire)

    def _read(self, wire: int) -> None:
        # What another event of the round has closed or held is not read any more.
        if self._files[wire] in self.loop.selector.get_map():
            data = self.on_the_way[wire].popleft()
            self.enter(lambda: self.do(self.relay.received(wire, data)))


# Talks: each is a connection, what its peers do after a round, and what must have come in the end -----


class KeptAlive:
    """Three requests at once over one connection: a long response, one of many chunks, one to be decoded."""

    protocol = "http/1.1"
    answers = (
        response(BODY),
        head("transfer-encoding: chunked") + b"1\r\nx\r\n" * 2000 + b"0\r\n\r\n",
        response(PACKED, "content-encoding: gzip"),
    )

    def __init__(self, lab: SharedLab) -> None:
        self.lab = lab
        self._answered = 0
        lab.send(CLIENT_WIRE, get() * len(self.answers))

    def act(self) -> None:
        self.lab.open_in_a_round()
        asked = sum(bytes(self.lab.sent[wire]).count(b"GET /v1/user") for wire in self.lab.standing)
        for answer in self.answers[self._answered : asked]:
            self.lab.send(max(self.lab.standing), answer)
            self._answered += 1

    def is_done(self) -> bool:
        return len(self.lab.desk.records) == len(self.answers)

    def check(self) -> None:
        bodies = [answer.body for answer in self.lab.responses() if answer.is_whole]
        assert bodies == [BODY, b"x" * 2000, UNPACKED]


class Asking:
    """A client that wants little, again and again: whoever wants more rests beside it."""

    protocol = "http/1.1"
    times = 40

    def __init__(self, lab: SharedLab) -> None:
        self.lab = lab
        self._asked = self._answered = 0

    def act(self) -> None:
        self.lab.open_in_a_round()
        if self._asked == len(self.lab.desk.records) < self.times:
            self._asked += 1
            self.lab.send(CLIENT_WIRE, get())
        came = sum(bytes(self.lab.sent[wire]).count(b"GET /v1/user") for wire in self.lab.standing)
        if came > self._answered:
            self._answered += 1
            self.lab.send(max(self.lab.standing), response(b"little"))

    def is_done(self) -> bool:
        return len(self.lab.desk.records) == self.times

    def check(self) -> None:
        assert [answer.body for answer in self.lab.responses()] == [b"little"] * self.times


class Uploaded:
    """A body that goes up, from a client whose upstream answers at its end."""

    protocol = "http/1.1"

    def __init__(self, lab: SharedLab) -> None:
        self.lab = lab
        self._is_answered = False
        lab.send(CLIENT_WIRE, post(BODY * 4))

    def act(self) -> None:
        self.lab.open_in_a_round()
        for wire in self.lab.standing:
            body = bytes(self.lab.sent[wire]).partition(b"\r\n\r\n")[2]
            if not self._is_answered and len(body) == len(BODY) * 4:
                self._is_answered = True
                self.lab.send(wire, response(b"taken"))

    def is_done(self) -> bool:
        return len(self.lab.desk.records) == 1

    def check(self) -> None:
        assert [answer.body for answer in self.lab.responses()] == [b"taken"]
        assert [asked.body for asked in self.lab.requests()] == [BODY * 4]


class Framed:
    """A WebSocket: its frames come with the switch, both ways, and are too many for one turn."""

    protocol = "http/1.1"
    down = frame(2, b"x") * 300 + frame(8, b"\x03\xe8")
    up = frame(2, b"y", mask=True) * 200 + frame(8, b"\x03\xe8", mask=True)

    def __init__(self, lab: SharedLab) -> None:
        self.lab = lab
        self._is_agreed = False
        lab.send(CLIENT_WIRE, get("/ws", *ASK))

    def act(self) -> None:
        self.lab.open_in_a_round()
        if self.lab.standing and not self._is_agreed:
            self._is_agreed = True
            self.lab.send(self.lab.standing[0], agree() + self.down)
            self.lab.send(CLIENT_WIRE, self.up)

    def is_done(self) -> bool:
        return len(self.lab.desk.records) == 1

    def check(self) -> None:
        assert self.lab.codes == ["rule.allowed"]
        assert self.lab.sent[CLIENT_WIRE].endswith(self.down)


class QueuedPeer(Peer):
    """An endpoint of HTTP/2 whose bytes are on their way for a while."""

    lab: SharedLab

    def send(self, data: bytes) -> None:
        self.lab.send(self.wire, data)


class Multiplexed:
    """Three exchanges over HTTP/2, one of them to be decoded; no peer has to open a window."""

    protocol = "h2"
    paths = ("/v1/a", "/v1/b", "/v1/packed")

    def __init__(self, lab: SharedLab) -> None:
        self.lab = lab
        self._client = QueuedPeer(lab, reads=False, settings={SettingCodes.INITIAL_WINDOW_SIZE: WIDE_BYTES})
        self._client.h2.increment_flow_control_window(WIDE_BYTES)
        self._server: QueuedPeer | None = None
        self._answered: set[int] = set()
        self._streams = [self._client.ask(path) for path in self.paths]

    def act(self) -> None:
        self.lab.open_in_a_round("h2")
        if self._server is None and self.lab.standing:
            self._server = QueuedPeer(self.lab, wire=self.lab.standing[0])
        if self._server is not None:
            self._server.flush()
            for number, seen in list(self._server.streams.items()):
                if seen.is_whole and number not in self._answered:
                    self._answered.add(number)
                    is_packed = seen.header(":path") == "/v1/packed"
                    fields = [("content-encoding", "gzip")] if is_packed else []
                    self._server.reply(number, *fields, body=PACKED if is_packed else BODY)
        self._client.flush()

    def is_done(self) -> bool:
        return all(self._client.seen(stream).is_whole for stream in self._streams)

    def check(self) -> None:
        bodies = [self._client.seen(stream).body for stream in self._streams]
        assert bodies == [BODY, BODY, UNPACKED]


Talk = KeptAlive | Asking | Uploaded | Framed | Multiplexed
TALKS: tuple[type[Talk], ...] = (KeptAlive, Asking, Uploaded, Framed, Multiplexed)
STEPS = st.lists(
    st.sampled_from(
        [
            0.0,
            0.0,
            TURN_SECONDS / 32,
            TURN_SECONDS / 8,
            TURN_SECONDS,
            LONE_TURN_SECONDS,
            MAX_OWED_SECONDS,
            1.0,
            3600.0,
        ]
    ),
    min_size=1,
    max_size=40,
)


def play(talks: list[Talk], loop: SharedLoop, blocked: dict[int, int]) -> None:
    """Let the talks go on to their end; `blocked` clients take nothing for two rounds, from this one on."""
    quiet = max(blocked.values(), default=0) + BLOCKED_ROUNDS
    for number in range(MAX_ROUNDS):
        is_busy = loop.round()
        for place, talk in enumerate(talks):
            since = number - blocked.get(place, MAX_ROUNDS)
            if since in {0, BLOCKED_ROUNDS}:
                talk.lab.block(held=since == 0)
            talk.act()
        if all(talk.is_done() for talk in talks):
            return
        waiting = [talk for talk in talks if not talk.is_done()]
        is_busy = is_busy or loop.is_busy or number <= quiet
        assert is_busy, f"nothing is due, and these wait: {waiting}"
    raise AssertionError(f"these wait for ever: {[talk for talk in talks if not talk.is_done()]}")


@given(
    steps=STEPS,
    talks=st.lists(st.tuples(st.sampled_from(TALKS), st.sampled_from("ab")), min_size=1, max_size=6),
    is_counted=st.booleans(),
    has_timers=st.booleans(),
    blocked=st.dictionaries(st.integers(0, 3), st.integers(0, 30), max_size=2),
)
@example([3600.0], [(each, "a") for each in TALKS], True, True, {})
@example([3600.0], [(each, "a") for each in TALKS], False, False, {})
@example([TURN_SECONDS / 32], [(Asking, "b"), *[(each, "a") for each in TALKS * 4]], False, True, {})
@settings(max_examples=examples(30))
def test_every_byte_arrives_whatever_the_clock_does(
    steps: list[float],
    talks: list[tuple[type[Talk], str]],
    is_counted: bool,
    has_timers: bool,
    blocked: dict[int, int],
) -> None:
    with ExitStack() as held:
        loop = SharedLoop(JumpingClock(steps), held, is_counted=is_counted, has_timers=has_timers)
        made = [kind(SharedLab(loop, sandbox, protocol=kind.protocol)) for kind, sandbox in talks]
        play(made, loop, blocked)
        for talk in made:
            talk.check()
            talk.lab.check()
