"""A relay with everything around it made of memory: its surroundings, its wires, and peers on them.

    lab = Lab()
    lab.says(get("/v1/user"))
    lab.opens()
    lab.answers(response(b"hello"))
    assert lab.responses() == [...]

`Lab` carries out what the relay orders and holds it to what must always be true: nothing goes upstream
before the exchange was announced, nothing on a wire that is closed, no byte of the secret to the client.
Peers are h11, h2 and wsproto, so the relay is never its own judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import h11
from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings

from egress.errors import CODES
from egress.exchange import Destination, Exchange, ExchangeRecord, HandlerVerdict, Spend
from egress.relay.limits import RelayLimits
from egress.relay.ports import (
    CLIENT_WIRE,
    Call,
    Close,
    ExchangeTiming,
    Fetch,
    HandBack,
    Open,
    RelayOrder,
    Reset,
    WireEnd,
    Write,
    YieldTurn,
)
from egress.relay.relay import DEFAULT_LIMITS, ClientProtocol, Relay
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.limits import LimitResult
from egress.rules.decide.policy import Policy
from egress.scrub import Needles
from egress.shares.turns import ENDLESS_TURN, Turn
from egress.types import Identity, Limit, Scheme, Secret

NAME: Final = "api.example.test"
VALUE: Final = b"sesame-open-please-0123456789"
NOW: Final = 1_800_000_000
START: Final = 1000.0
IDENTITY: Final = Identity("box")

RULES: Final = """
version: 1
secrets:
  api: {from: "env:API", hosts: ["api.example.test"]}
hosts:
  api.example.test:
    allow:
      - {id: v1, methods: [GET, HEAD, POST, PUT, DELETE, OPTIONS], paths: ["/v1/**"]}
      - {id: ws, paths: ["/ws"], websocket: true}
    inject:
      - bearer: api
"""
BLOCKING: Final = RULES.replace("    inject:", "    scrub: block\n    inject:")
LIMITED: Final = RULES.replace(
    "    inject:", "    limits: {request_body: 100, response_body: 1000}\n    inject:"
)
NOTHING: Final = RULES.replace("/v1/**", "/v2/**").replace("/ws", "/ws2")
CLEAR: Final = """
version: 1
hosts:
  api.example.test:
    http: true
    allow:
      - {id: v1, methods: [GET, HEAD, POST], paths: ["/v1/**"]}
"""


@lru_cache
def policy_of(text: str) -> Policy:
    loaded = load([RuleText("hosts.yaml", text)], {}, 0)
    if loaded.policy is None:
        raise ValueError("; ".join(str(finding) for finding in loaded.findings))
    return loaded.policy


def always(limits: tuple[Limit, ...]) -> LimitResult:
    """A count that never ends."""
    return LimitResult(allowed=True)


HTTPS: Final = Destination("https", NAME, 443)


class CountedTurn:
    """A turn that is over after so many steps: whoever asks has made one."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.made = 0

    @property
    def is_over(self) -> bool:
        self.made += 1
        return self.made > self.steps

    def begin(self) -> None:
        """The next turn begins."""
        self.made = 0


@dataclass(slots=True)
class Desk:
    """The surroundings of one relay."""

    current: Policy
    destination: Destination = HTTPS
    clock: float = START
    at_hand: bool = True
    """Secrets need not be fetched."""
    is_stopped: bool = False
    """The audit keeps no records any more."""
    spend: Spend = always
    begun: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    left: list[object] = field(default_factory=list)
    """The tickets of exchanges whose first byte went upstream."""
    records: list[ExchangeRecord] = field(default_factory=list)
    recorded: list[str] = field(default_factory=list)
    timings: list[ExchangeTiming] = field(default_factory=list)
    spent: list[object] = field(default_factory=list)
    asked: int = 0
    turn: Turn = ENDLESS_TURN
    buffer_bytes: int = 256 * 1024
    fails_at: str = ""
    """The method that raises, as if it had a bug."""

    def policy(self) -> Policy:
        return self.current

    def now(self) -> int:
        self._may_fail("now")
        return NOW

    def monotonic(self) -> float:
        return self.clock

    def request_id(self) -> str:
        self.asked += 1
        return f"id{self.asked}"

    def new_exchange(self) -> Exchange:
        self._may_fail("new_exchange")
        policy = self.policy()
        return Exchange(policy, IDENTITY, self.destination, needles=self.needles(policy), spend=self.spend)

    def needles(self, policy: Policy) -> Needles | None:
        return NEEDLES if policy.secrets else Needles({})

    def secrets(
        self, policy: Policy, names: tuple[str, ...], *, unscrubbed: bool
    ) -> Mapping[str, Secret] | None:
        self._may_fail("secrets")
        return dict.fromkeys(names, SECRET) if self.at_hand else None

    def begin(self, request: str, method: str, secrets: tuple[str, ...]) -> object | None:
        self._may_fail("begin")
        if self.is_stopped:
            return None
        self.begun.append((request, method, secrets))
        return request

    def sent(self, ticket: object) -> None:
        self._may_fail("sent")
        assert ticket in {request for request, _, _ in self.begun}
        self.left.append(ticket)

    def finish(
        self, ticket: object | None, request: str, record: ExchangeRecord, timing: ExchangeTiming
    ) -> None:
        assert 0 < timing.began <= timing.ended, "an exchange that is recorded has ended"
        assert not timing.answered or timing.began <= timing.sent <= timing.answered <= timing.ended
        self.recorded.append(request)
        self.records.append(record)
        self.timings.append(timing)
        if ticket is not None:
            self.spent.append(ticket)
        self._may_fail("finish")

    def _may_fail(self, name: str) -> None:
        if name == self.fails_at:
            raise ArithmeticError(name)


SECRET: Final = Secret("api", VALUE)
NEEDLES: Final = Needles.of([SECRET])


class Lab:
    """A relay, and what its orders have done to the wires."""

    def __init__(
        self,
        rules: str = RULES,
        *,
        protocol: ClientProtocol = "http/1.1",
        forward: bool = False,
        limits: RelayLimits = DEFAULT_LIMITS,
        at_hand: bool = True,
        scheme: Scheme = "https",
        is_strict: bool = True,
        steps: int = 0,
    ) -> None:
        """`steps`: so many may be made in a turn; 0 for turns without an end."""
        destination = Destination(scheme, NAME, 443 if scheme == "https" else 80)
        self.desk = Desk(policy_of(rules), destination, at_hand=at_hand)
        if steps:
            self.desk.turn = CountedTurn(steps)
        self.relay = Relay(
            self.desk,
            IDENTITY,
            destination,
            protocol=protocol,
            forward=forward,
            limits=limits,
        )
        self.sent: dict[int, bytearray] = {CLIENT_WIRE: bytearray()}
        self.ended: dict[int, str] = {}
        self.handed_back = b""
        """The request with which the client's connection was handed back."""
        self.opening: dict[int, tuple[str, ...]] = {}
        self.standing: list[int] = []
        """Upstream wires that are open, oldest first."""
        self.fetching: list[Fetch] = []
        self.calling: list[Call] = []
        self.orders: list[RelayOrder] = []
        self.turns = 0
        """How often the relay asked for another turn."""
        self.is_slow = False
        """Others have their turn first: call `again` to go on."""
        self._is_strict = is_strict
        self._taken: dict[int, int] = {}
        self.do(self.relay.start())

    # What happens

    def begins(self) -> None:
        """A turn begins."""
        if isinstance(self.desk.turn, CountedTurn):
            self.desk.turn.begin()

    def says(self, data: bytes) -> None:
        """The client sends."""
        self.begins()
        self.do(self.relay.received(CLIENT_WIRE, data))

    def opens(self, alpn: str = "", *, wire: int = 0) -> int:
        """An upstream connection that was asked for stands."""
        wire = wire or next(iter(self.opening))
        del self.opening[wire]
        self.standing.append(wire)
        self.sent[wire] = bytearray()
        self.do(self.relay.opened(wire, alpn))
        return wire

    def fails(self, code: str = "upstream.unreachable") -> None:
        wire = next(iter(self.opening))
        del self.opening[wire]
        self.ended[wire] = "failed"
        self.do(self.relay.failed(wire, code))

    def answers(self, data: bytes, *, wire: int = 0) -> None:
        """The upstream sends, on the newest connection."""
        self.begins()
        wire = wire or max(self.standing, default=0) or max(self.sent)
        self.do(self.relay.received(wire, data))

    def hangs_up(self, wire: int = 0, how: WireEnd = "clean") -> None:
        """The upstream closes, or is cut off."""
        self.do(self.relay.ended(wire or self.standing[-1], how))

    def leaves(self) -> None:
        """The client closes its side."""
        self.do(self.relay.ended(CLIENT_WIRE))

    def fetches(self, secrets: Mapping[str, Secret] | None = None) -> None:
        """The values of secrets come; or what there is of them."""
        ticket = self.fetching.pop(0).ticket
        self.do(self.relay.fetched(ticket, {"api": SECRET} if secrets is None else secrets))

    def handles(self, verdict: HandlerVerdict) -> Call:
        """The handler that was asked first says this; return the call."""
        call = self.calling.pop(0)
        self.do(self.relay.handled(call.ticket, verdict))
        return call

    def blocks(self, wire: int = CLIENT_WIRE) -> None:
        self.do(self.relay.blocked(wire, blocked=True))

    def drains(self, wire: int = CLIENT_WIRE) -> None:
        self.do(self.relay.blocked(wire, blocked=False))

    def waits(self, seconds: float, *, steps: int = 1) -> None:
        """Time passes."""
        for _ in range(steps):
            self.desk.clock += seconds / steps
            self.do(self.relay.tick())

    def shuts(self, code: str = "internal") -> None:
        self.do(self.relay.shut(code))

    def again(self) -> None:
        """It is the relay's turn again."""
        self.begins()
        self.do(self.relay.again())

    def do(self, orders: Iterable[RelayOrder]) -> None:
        """Carry out orders."""
        for order in orders:
            self.orders.append(order)
            if isinstance(order, Write):
                self._write(order)
            elif isinstance(order, Open):
                assert len(self.desk.begun) > 0, "a connection before the exchange was announced"
                self.opening[order.wire] = order.alpn
            elif isinstance(order, Fetch):
                self.fetching.append(order)
            elif isinstance(order, Call):
                self.calling.append(order)
            elif isinstance(order, YieldTurn):
                self.turns += 1
                if not self.is_slow:
                    self.again()
            elif isinstance(order, HandBack):
                assert CLIENT_WIRE not in self.ended, "a wire is closed twice"
                self.ended[CLIENT_WIRE], self.handed_back = "handed back", order.data
            else:
                self._end(order)

    def _write(self, order: Write) -> None:
        assert order.wire not in self.ended, "a write on a closed wire"
        assert order.wire in self.sent, "a write on a wire that does not stand"
        assert order.data
        self.sent[order.wire] += order.data
        if order.wire == CLIENT_WIRE and self._is_strict:
            assert VALUE not in self.sent[CLIENT_WIRE], "the secret goes to the client"

    def _end(self, order: Close | Reset) -> None:
        assert order.wire not in self.ended, "a wire is closed twice"
        self.ended[order.wire] = "reset" if isinstance(order, Reset) else "closed"
        self.opening.pop(order.wire, None)
        if order.wire in self.standing:
            self.standing.remove(order.wire)

    # What is there to see

    def new(self, wire: int = CLIENT_WIRE) -> bytes:
        """What went out on a wire since the last call."""
        data = bytes(self.sent[wire][self._taken.get(wire, 0) :])
        self._taken[wire] = len(self.sent[wire])
        return data

    def closed(self) -> bool:
        """The client's wire is closed."""
        return CLIENT_WIRE in self.ended

    @property
    def codes(self) -> list[str]:
        """The codes of the records."""
        return [record.code for record in self.desk.records]

    @property
    def record(self) -> ExchangeRecord:
        """The one record."""
        (record,) = self.desk.records
        return record

    def responses(self, *methods: str) -> list[Answer]:
        """What the client was answered, as h11 reads it; GET where no method is named."""
        return read_responses(bytes(self.sent[CLIENT_WIRE]), methods, is_closed=self.closed())

    def requests(self, wire: int = 0) -> list[Asked]:
        """What an upstream was asked, as h11 reads it."""
        return read_requests(bytes(self.sent[wire or max(self.sent)]))

    def check(self) -> None:
        """Every exchange that was announced and is over has its record, and none has two."""
        assert len(self.desk.recorded) == len(set(self.desk.recorded)), "two records of one exchange"
        assert len(self.desk.spent) == len(set(self.desk.spent)), "a ticket is spent twice"
        announced = {request for request, _, _ in self.desk.begun}
        under_way = {stream.id for stream in self.relay._live}
        assert announced - under_way == set(self.desk.spent) - under_way
        assert not under_way & set(self.desk.recorded)
        for code in self.codes:
            assert code in CODES or code in {"client.left", "rule.allowed", "lane.ended"}, code


# HTTP/1.1 ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Answer:
    """A response as a client reads it."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    is_whole: bool = False
    interim: list[int] = field(default_factory=list)
    trailers: dict[str, str] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """The code of a page of ours."""
        return self.headers.get("egress-denied", "")


@dataclass(slots=True)
class Asked:
    """A request as a server reads it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""
    is_whole: bool = False


def read_responses(data: bytes, methods: Iterable[str], *, is_closed: bool) -> list[Answer]:
    found: list[Answer] = []
    names = [*methods]
    while data:
        peer = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
        method = names.pop(0) if names else "GET"
        peer.send(h11.Request(method=method, target="/", headers=[("host", NAME)]))
        peer.send(h11.EndOfMessage())
        peer.receive_data(data)
        if is_closed:
            peer.receive_data(b"")
        answer, interim = None, []
        while True:
            try:
                event = peer.next_event()
            except h11.RemoteProtocolError:
                break
            if isinstance(event, h11.InformationalResponse):
                interim.append(event.status_code)
            elif isinstance(event, h11.Response):
                answer = Answer(event.status_code, _shown(event.headers), interim=interim)
                found.append(answer)
            elif isinstance(event, h11.Data) and answer is not None:
                answer.body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage) and answer is not None:
                answer.is_whole = True
                answer.trailers = _shown(event.headers)
                break
            else:
                break
        if answer is None or not answer.is_whole:
            break
        data = peer.trailing_data[0]
    return found


def read_requests(data: bytes) -> list[Asked]:
    peer = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    peer.receive_data(data)
    found: list[Asked] = []
    while True:
        event = peer.next_event()
        if isinstance(event, h11.Request):
            found.append(Asked(event.method.decode(), event.target.decode(), _shown(event.headers)))
        elif isinstance(event, h11.Data):
            found[-1].body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            found[-1].is_whole = True
            if peer.our_state is h11.SEND_RESPONSE:
                peer.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                peer.send(h11.EndOfMessage())
            if peer.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
                peer.start_next_cycle()
        else:
            return found


def _shown(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode(): value.decode("latin-1") for name, value in headers}


def get(path: str = "/v1/user", *fields: str, method: str = "GET", version: str = "1.1") -> bytes:
    """A request without a body."""
    lines = [f"{method} {path} HTTP/{version}", f"Host: {NAME}", *fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def post(body: bytes, path: str = "/v1/notes", *fields: str, method: str = "POST") -> bytes:
    """A request with a body of a stated length."""
    return get(path, f"Content-Length: {len(body)}", *fields, method=method) + body


def response(body: bytes = b"hello", *fields: str, status: str = "200 OK") -> bytes:
    """A response with a body of a stated length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def head(*fields: str, status: str = "200 OK", version: str = "1.1") -> bytes:
    """The head of a response."""
    return ("\r\n".join([f"HTTP/{version} {status}", *fields]) + "\r\n\r\n").encode("latin-1")


# HTTP/2 -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Seen:
    """One stream as a peer sees it."""

    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    trailers: list[tuple[str, str]] = field(default_factory=list)
    interim: list[str] = field(default_factory=list)
    is_whole: bool = False
    reset: int | None = None

    def header(self, name: str) -> str:
        return next((value for each, value in self.headers if each == name), "")

    @property
    def status(self) -> int:
        return int(self.header(":status") or 0)

    @property
    def code(self) -> str:
        return self.header("egress-denied")


class Peer:
    """An h2 endpoint on one wire of a lab. It sends what it is told to, well-formed or not."""

    def __init__(
        self,
        lab: Lab,
        *,
        wire: int = CLIENT_WIRE,
        settings: Mapping[SettingCodes, int] | None = None,
        reads: bool = True,
    ) -> None:
        """`reads`: acknowledge what comes, so that more may."""
        config = H2Configuration(
            client_side=wire == CLIENT_WIRE,
            header_encoding="latin-1",
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        self.h2 = H2Connection(config)
        self.h2.local_settings = Settings(client=wire == CLIENT_WIRE, initial_values=dict(settings or {}))
        self.lab = lab
        self.wire = wire
        self.reads = reads
        self.streams: dict[int, Seen] = {}
        self.events: list[events.Event] = []
        self.is_held = False
        """What it says waits, to arrive in one read."""
        self.gone: int | None = None
        """The error code of the GOAWAY that came."""
        self._at = 0
        table = self.h2.local_settings.header_table_size
        self.h2.decoder.max_allowed_table_size = table
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        """Send what is waiting, and take what comes of it."""
        while not self.is_held:
            data = self.h2.data_to_send()
            if data:
                self.send(data)
            if not self.take() and not data:
                return

    def send(self, data: bytes) -> None:
        """Send bytes, whatever they are."""
        self.lab.do(self.lab.relay.received(self.wire, data))

    def take(self) -> bool:
        """Read what has come in."""
        data = bytes(self.lab.sent[self.wire][self._at :])
        self._at += len(data)
        if not data:
            return False
        for event in self.h2.receive_data(data):
            self.events.append(event)
            self._note(event)
        return True

    def seen(self, stream: int) -> Seen:
        return self.streams.setdefault(stream, Seen())

    def _note(self, event: events.Event) -> None:
        if isinstance(event, events.ConnectionTerminated):
            self.gone = int(event.error_code or 0)
            return
        number = getattr(event, "stream_id", None)
        if not number:
            return
        seen = self.seen(number)
        if isinstance(event, events.RequestReceived | events.ResponseReceived):
            seen.headers = [(str(name), str(value)) for name, value in event.headers]
        elif isinstance(event, events.InformationalResponseReceived):
            seen.interim += [str(value) for name, value in event.headers if str(name) == ":status"]
        elif isinstance(event, events.DataReceived):
            seen.body += event.data or b""
            if self.reads:
                self.h2.acknowledge_received_data(event.flow_controlled_length or 0, number)
        elif isinstance(event, events.TrailersReceived):
            seen.trailers = [(str(name), str(value)) for name, value in event.headers]
        elif isinstance(event, events.StreamEnded):
            seen.is_whole = True
        elif isinstance(event, events.StreamReset):
            seen.reset = int(event.error_code or 0)

    # A client's part

    def ask(
        self,
        path: str = "/v1/user",
        *fields: tuple[str, str],
        method: str = "GET",
        body: bytes | None = None,
        ends: bool = True,
        authority: str = NAME,
        scheme: str = "https",
    ) -> int:
        """Send a request; a body makes it one with DATA."""
        pseudo = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)]
        return self.ask_with([*pseudo, *fields], body=body, ends=ends)

    def ask_with(self, fields: list[tuple[str, str]], *, body: bytes | None = None, ends: bool = True) -> int:
        """Send exactly these fields."""
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, fields, end_stream=ends and body is None)
        if body is not None:
            self.say(stream, body, ends=ends)
        self.flush()
        return stream

    # Both

    def say(self, stream: int, data: bytes, *, ends: bool = False) -> None:
        """Send DATA, as far as the windows let it; what they do not is an error of the test."""
        size = self.h2.max_outbound_frame_size
        pieces = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
        for at, piece in enumerate(pieces):
            if len(piece) > self.h2.local_flow_control_window(stream):
                self.flush()
            self.h2.send_data(stream, piece, end_stream=ends and at == len(pieces) - 1)
        self.flush()

    def end(self, stream: int, trailers: list[tuple[str, str]] | None = None) -> None:
        if trailers:
            self.h2.send_headers(stream, trailers, end_stream=True)
        else:
            self.h2.end_stream(stream)
        self.flush()

    def reset(self, stream: int, code: int = 8) -> None:
        self.h2.reset_stream(stream, code)
        self.flush()

    # A server's part

    def reply(
        self,
        stream: int,
        *fields: tuple[str, str],
        status: int = 200,
        body: bytes | None = b"hello",
        ends: bool = True,
    ) -> None:
        """Answer; None is a response without DATA."""
        self.h2.send_headers(stream, [(":status", str(status)), *fields], end_stream=ends and body is None)
        if body is not None:
            self.say(stream, body, ends=ends)
        self.flush()

    @property
    def newest(self) -> int:
        return max(self.streams)


def h2_lab(
    rules: str = RULES,
    *,
    at_hand: bool = True,
    reads: bool = True,
    settings: Mapping[SettingCodes, int] | None = None,
    limits: RelayLimits = DEFAULT_LIMITS,
    steps: int = 0,
) -> tuple[Lab, Peer]:
    """A lab whose client speaks HTTP/2, and that client."""
    lab = Lab(rules, protocol="h2", at_hand=at_hand, limits=limits, steps=steps)
    return lab, Peer(lab, reads=reads, settings=settings)


def both_h2(rules: str = RULES) -> tuple[Lab, Peer, Peer, int]:
    """The same, with one request that an HTTP/2 upstream has got; and the number of its stream."""
    lab, client = h2_lab(rules)
    client.ask()
    wire = lab.opens("h2")
    server = Peer(lab, wire=wire)
    client.flush()
    return lab, client, server, server.newest
