"""The relay under bytes cut anywhere, garbage on any wire, and events in any order."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from traceback import extract_tb

from h2.exceptions import ProtocolError
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import egress
from egress.relay.limits import RelayLimits
from egress.relay.ports import CLIENT_WIRE
from egress.shares.pool import Resource, SharePool
from tests.attack.test_http1_relay import absolute
from tests.attack.test_websocket import ASK, agree, frame
from tests.tiers import examples
from tests.unit.relay.wires import (
    BLOCKING,
    CLEAR,
    LIMITED,
    NOTHING,
    RULES,
    SECRET,
    VALUE,
    Lab,
    Peer,
    get,
    head,
    policy_of,
    post,
    response,
)

PACKED = gzip.compress(bytes(300_000) + VALUE)
"""A response that takes several turns to decode."""
CUTS = st.lists(st.integers(1, 40), min_size=1, max_size=30)
GARBAGE = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [b"\r\n", b"\0", b"HTTP/1.1 ", b"0\r\n\r\n", b"\x00\x00\x00\x04\x00\x00\x00\x00\x00", VALUE]
    ),
)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data in pieces of these sizes, over and over."""
    found, at, turn = [], 0, 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        found.append(data[at : at + size])
        at, turn = at + size, turn + 1
    return found


# Cutting ------------------------------------------------------------------------------------------

CHUNKED = head("transfer-encoding: chunked", "x-echo: " + VALUE.decode())
TALKS: list[tuple[bytes, bytes]] = [
    (get(), response(b"hello " + VALUE + b" bye")),
    (get(), CHUNKED + b"5\r\nhello\r\n1e;x=y\r\n " + VALUE + b"\r\n0\r\nx-check: 1\r\n\r\n"),
    (get(), head(status="103 Early Hints") + response(status="404 Not Found")),
    (get(), response(b"", "location: https://evil.example.test/", status="302 Found")),
    (get(method="HEAD"), head("content-length: 5")),
    (post(b"a body " * 10), response()),
    (get("/v1/n", "transfer-encoding: chunked", method="POST") + b"3\r\nabc\r\n0\r\n\r\n", response(b"")),
    (get(), head("content-length: 5", "content-length: 6") + b"hello"),
    (get(), b"HTTP/1.1 200 OK\r\nx y: z\r\n\r\n"),
]


@given(talk=st.sampled_from(TALKS), up=CUTS, down=CUTS)
def test_how_bytes_are_cut_changes_nothing(talk: tuple[bytes, bytes], up: list[int], down: list[int]) -> None:
    asked, answered = talk
    found = []
    for ups, downs in (([asked], [answered]), (pieces(asked, up), pieces(answered, down))):
        lab = Lab()
        for each in ups:
            lab.says(each)
        wire = lab.opens()
        for each in downs:
            lab.answers(each, wire=wire)
        lab.check()
        (answer,) = lab.responses(asked.split()[0].decode())
        (request,) = lab.requests(wire)
        found.append((answer, request, lab.desk.records, wire in lab.ended))
    assert found[0] == found[1]
    assert len(found[0][2]) == 1


@given(cuts=CUTS)
def test_how_refused_bytes_are_cut_changes_nothing(cuts: list[int]) -> None:
    asked = get("/admin") + get("/v1/../x") + post(b"", "/admin") + b"NONSENSE\r\n\r\n" + get()
    sent = []
    for each in ([asked], pieces(asked, cuts)):
        lab = Lab()
        for piece in each:
            lab.says(piece)
        sent.append((bytes(lab.sent[CLIENT_WIRE]), lab.codes))
    assert sent[0] == sent[1]
    assert sent[0][1] == ["rule.none", "path.ambiguous", "rule.none", "request.malformed"]


@given(up=CUTS, down=CUTS)
def test_how_http2_is_cut_changes_nothing(up: list[int], down: list[int]) -> None:
    bodies = []
    for ups, downs in (([10_000], [10_000]), (up, down)):
        lab = Lab(protocol="h2")
        client = Cutting(lab, ups)
        stream = client.ask("/v1/notes", method="POST", body=b"a body", ends=True)
        server = Cutting(lab, downs, wire=lab.opens("h2"))
        server.h2.send_headers(1, [(":status", "103")])
        server.reply(1, ("x-echo", VALUE.decode()), body=b"hello " + VALUE, ends=False)
        server.end(1, [("x-check", "1")])
        client.flush()
        bodies.append((client.seen(stream), server.seen(1), lab.desk.records))
        lab.check()
    assert bodies[0] == bodies[1]
    assert VALUE not in repr(bodies[0][0]).encode()


OURS = Path(egress.__file__).parent
"""The folder of the package: a checkout may have any name, that of the package too."""


class Cutting(Peer):
    """A peer whose bytes arrive in pieces."""

    def __init__(self, lab: Lab, cuts: list[int], *, wire: int = CLIENT_WIRE) -> None:
        self._cuts = cuts
        super().__init__(lab, wire=wire)

    def send(self, data: bytes) -> None:
        for each in pieces(data, self._cuts):
            super().send(each)


@given(up=CUTS, down=CUTS, text=st.text(max_size=20), binary=st.binary(max_size=40))
def test_how_frames_are_cut_changes_nothing(up: list[int], down: list[int], text: str, binary: bytes) -> None:
    said = text.encode()
    ups = frame(1, said, mask=True) + frame(9, b"p", mask=True) + frame(2, binary, mask=True)
    downs = frame(1, said[:3], fin=False) + frame(10, VALUE) + frame(0, said[3:] + VALUE) + frame(2, binary)
    lab = Lab()
    lab.says(get("/ws", *ASK))
    wire = lab.opens()
    lab.answers(agree())
    lab.new(), lab.new(wire)
    for each in pieces(ups + frame(8, b"\x03\xe8", mask=True), up):
        lab.says(each)
    for each in pieces(downs + frame(8, b"\x03\xe8"), down):
        lab.answers(each, wire=wire)
    assert messages(lab.new(wire)) == [(9, b"p"), (1, said), (2, binary), (8, b"\x03\xe8")]
    masked = b"*" * len(VALUE)
    assert messages(lab.new()) == [(10, masked), (1, said + masked), (2, binary), (8, b"\x03\xe8")]
    assert lab.codes == ["rule.allowed"]
    lab.check()


def messages(data: bytes) -> list[tuple[int, bytes]]:
    """What these frames say, control frames first; read by hand, for no codec has the last word."""
    control, found, at = [], list[tuple[int, bytes]](), 0
    open_message: tuple[int, bytes] | None = None
    while at < len(data):
        first, second = data[at], data[at + 1]
        size, at = second & 0x7F, at + 2
        if size == 126:
            size, at = struct.unpack_from("!H", data, at)[0], at + 2
        mask = data[at : at + 4] if second & 0x80 else b"\0\0\0\0"
        at += 4 if second & 0x80 else 0
        payload = bytes(byte ^ mask[index % 4] for index, byte in enumerate(data[at : at + size]))
        at += size
        opcode = first & 15
        if opcode == 8:
            found.append((opcode, payload))
        elif opcode > 8:
            control.append((opcode, payload))
        else:
            kind, before = open_message or (opcode, b"")
            open_message = (kind, before + payload)
            if first & 0x80:
                found.append(open_message)
                open_message = None
    return control + found


@given(
    cuts=CUTS,
    second=st.sampled_from([absolute("/v1/b", "other.example.test"), get("/v1/b"), post(b"x" * 50)]),
)
def test_how_a_request_for_another_destination_is_cut_changes_nothing(cuts: list[int], second: bytes) -> None:
    """Every byte that was not read for this destination is handed back, once and in its order."""
    first, behind = absolute("/v1/a"), b"\0 and the next\r\n\r\n"
    whole = first + second + behind
    lab, said = Lab(CLEAR, scheme="http", forward=True), 0
    for piece in pieces(whole, cuts):
        if lab.closed():
            break
        lab.says(piece)
        said += len(piece)
        if lab.opening:
            lab.opens()
            lab.answers(response())
    assert lab.handed_back + whole[said:] == second + behind
    assert lab.codes == ["rule.allowed"]
    lab.check()


# Anything at any time ---------------------------------------------------------------------------------


class Anything(RuleBasedStateMachine):
    """One client connection, and whatever may happen to it, in any order."""

    protocol = "http/1.1"

    @initialize(
        at_hand=st.booleans(),
        rules=st.sampled_from([RULES, BLOCKING, LIMITED]),
        forward=st.booleans(),
        steps=st.sampled_from([0, 2]),
    )
    def begin(self, at_hand: bool, rules: str, forward: bool, steps: int) -> None:
        self.pool = SharePool()
        limits = RelayLimits(pool=self.pool)
        self.lab = Lab(rules, at_hand=at_hand, forward=forward, limits=limits, steps=steps)
        self.lab.is_slow = bool(steps)

    # The peers

    @rule(
        data=st.sampled_from(
            [
                get(),
                get("/admin"),
                get("/v1/../x"),
                get(method="HEAD"),
                get(version="1.0"),
                get("/ws", *ASK),
                post(b"hello"),
                post(b"", "/admin"),
                post(b"x" * 200),
                get("/v1/n", "Content-Length: 10", "Expect: 100-continue", method="POST"),
                get("/v1/n", "Transfer-Encoding: chunked", method="POST"),
                b"3\r\nabc\r\n",
                b"0\r\n\r\n",
                b"hello",
                frame(1, b"hi", mask=True),
                frame(8, b"\x03\xe8", mask=True),
            ]
        ),
        cut=st.integers(0, 400),
    )
    def client_speaks(self, data: bytes, cut: int) -> None:
        self._cut(CLIENT_WIRE, data, cut)

    @rule(
        data=st.sampled_from(
            [
                response(),
                response(VALUE),
                head(status="100 Continue"),
                head(f"x: {VALUE.decode()}", status="103 Early Hints"),
                head("transfer-encoding: chunked"),
                b"1e\r\n " + VALUE + b"\r\n",
                b"0\r\n\r\n",
                head("content-length: 5"),
                b"hello",
                response(PACKED, "content-encoding: gzip"),
                response(PACKED, "content-encoding: gzip")[:-20],
                head("content-encoding: gzip") + PACKED,
                head(),
                response(status="304 Not Modified"),
                head(status="204 No Content"),
                agree(),
                frame(1, VALUE),
                frame(9, VALUE),
                frame(8, b"\x03\xe8"),
            ]
        ),
        cut=st.integers(0, 1000),
        which=st.integers(0, 3),
    )
    def upstream_speaks(self, data: bytes, cut: int, which: int) -> None:
        if self.lab.standing:
            self._cut(self.lab.standing[which % len(self.lab.standing)], data, cut)

    @rule(data=GARBAGE, which=st.integers(0, 3))
    def garbage(self, data: bytes, which: int) -> None:
        wires = [CLIENT_WIRE, *self.lab.standing]
        self.lab.do(self.lab.relay.received(wires[which % len(wires)], data))

    @rule(which=st.integers(0, 3), alpn=st.sampled_from(["", "http/1.1"]))
    def opened(self, which: int, alpn: str) -> None:
        if self.lab.opening:
            self.lab.opens(alpn, wire=sorted(self.lab.opening)[which % len(self.lab.opening)])

    @rule(code=st.sampled_from(["upstream.unreachable", "upstream.tls", "address.refused"]))
    def failed(self, code: str) -> None:
        if self.lab.opening:
            self.lab.fails(code)

    @rule(has=st.booleans())
    def fetched(self, has: bool) -> None:
        if self.lab.fetching:
            self.lab.fetches({"api": SECRET} if has else {})

    @rule(which=st.integers(0, 3), blocked=st.booleans())
    def blocked(self, which: int, blocked: bool) -> None:
        wires = [CLIENT_WIRE, *self.lab.standing]
        self.lab.do(self.lab.relay.blocked(wires[which % len(wires)], blocked=blocked))

    @rule(which=st.integers(0, 3))
    def upstream_ends(self, which: int) -> None:
        if self.lab.standing:
            self.lab.hangs_up(self.lab.standing[which % len(self.lab.standing)])

    @rule(seconds=st.sampled_from([0.0, 1.0, 20.0, 100.0, 1000.0, 1e9]))
    def waits(self, seconds: float) -> None:
        self.lab.waits(seconds, steps=2)

    @rule()
    def again(self) -> None:
        self.lab.again()

    @rule(rules=st.sampled_from([RULES, NOTHING]))
    def recheck(self, rules: str) -> None:
        self.lab.do(self.lab.relay.recheck(policy_of(rules), 0))

    # Ends, which are rarer than the rest

    @rule(how=st.sampled_from(["nothing"] * 12 + ["leaves", "drain", "gone", "shut"]))
    def ends(self, how: str) -> None:
        END[how](self.lab)

    @invariant()
    def is_in_order(self) -> None:
        if hasattr(self, "lab"):
            self.lab.check()
            for wire in (CLIENT_WIRE, *self.lab.standing):
                self.lab.relay.reads(wire)
            if self.lab.closed():
                assert not self.lab.relay._live
                assert not self.lab.standing
                assert not self.lab.opening
                assert not any(self.pool.used), "all that was taken is given back"
            else:
                wires = len(self.lab.standing) + len(self.lab.opening)
                taken = [self.pool.used[each] for each in (Resource.EXCHANGES, Resource.UPSTREAMS)]
                assert taken == [len(self.lab.relay._live), wires]
                is_decoding = bool(self.pool.used[Resource.DECODERS])
                assert self.lab.relay._live or not is_decoding

    def teardown(self) -> None:
        if not hasattr(self, "lab"):
            return
        self.lab.shuts()
        self.lab.check()
        assert {request for request, _, _ in self.lab.desk.begun} == set(self.lab.desk.spent)
        assert not any(self.lab.sent[wire] for wire in self.lab.sent if wire) or self.lab.desk.left
        assert not any(self.pool.used)
        assert not self.pool.sandboxes

    def _cut(self, wire: int, data: bytes, cut: int) -> None:
        for piece in (data[:cut], data[cut:]):
            if piece and wire not in self.lab.ended:
                self.lab.do(self.lab.relay.received(wire, piece))


END: dict[str, Callable[[Lab], None]] = {
    "nothing": lambda lab: None,
    "leaves": lambda lab: lab.leaves(),
    "drain": lambda lab: lab.do(lab.relay.drain()),
    "gone": lambda lab: lab.do(lab.relay.gone()),
    "shut": lambda lab: lab.shuts("proxy.stopping"),
}


class AnythingOverHttp2(Anything):
    """The same with HTTP/2 peers on some of the wires; they keep to the protocol until garbage comes."""

    @initialize(
        at_hand=st.booleans(),
        rules=st.sampled_from([RULES, LIMITED]),
        forward=st.booleans(),
        steps=st.sampled_from([0, 2]),
    )
    def begin(self, at_hand: bool, rules: str, forward: bool, steps: int) -> None:
        self.pool = SharePool()
        limits = RelayLimits(pool=self.pool)
        self.lab = Lab(rules, protocol="h2", at_hand=at_hand, is_strict=False, limits=limits, steps=steps)
        self.lab.is_slow = bool(steps)
        self.client = Peer(self.lab)
        self.servers: dict[int, Peer] = {}

    @rule(
        path=st.sampled_from(["/v1/a", "/v1/b", "/admin", "v1", "/v1/ x"]),
        method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "CONNECT"]),
        body=st.sampled_from([None, b"", b"hello", b"x" * 200]),
        ends=st.booleans(),
        stated=st.booleans(),
    )
    def client_asks(self, path: str, method: str, body: bytes | None, ends: bool, stated: bool) -> None:
        fields = [("content-length", "5")] if stated else []
        self._try(lambda: self.client.ask(path, *fields, method=method, body=body, ends=ends))

    @rule(held=st.booleans(), which=st.integers(0, 3))
    def holds(self, held: bool, which: int) -> None:
        """What a peer says from here on arrives in one read."""
        peers = [self.client, *self.servers.values()]
        peer = peers[which % len(peers)]
        peer.is_held = held
        if peer.wire not in self.lab.ended:
            self._try(peer.flush)

    @rule(which=st.integers(0, 5), what=st.sampled_from(["data", "end", "trailers", "reset"]))
    def client_goes_on(self, which: int, what: str) -> None:
        streams = sorted(self.client.h2.streams)
        if streams:
            self._act(self.client, streams[which % len(streams)], what)

    @rule(which=st.integers(0, 3))
    def opened_with_http2(self, which: int) -> None:
        if self.lab.opening:
            wire = sorted(self.lab.opening)[which % len(self.lab.opening)]
            is_http2 = "h2" in self.lab.opening[wire]
            self.lab.opens("h2" if is_http2 else "http/1.1", wire=wire)
            if is_http2 and wire in self.lab.standing:
                self._try(lambda: self.servers.update({wire: Peer(self.lab, wire=wire)}))

    @rule(
        which=st.integers(0, 5),
        what=st.sampled_from(
            ["reply", "packed", "head", "hint", "data", "end", "trailers", "reset", "refuse", "goodbye"]
        ),
    )
    def server_acts(self, which: int, what: str) -> None:
        servers = [server for wire, server in self.servers.items() if wire in self.lab.standing]
        if not servers:
            return
        server = servers[which % len(servers)]
        self._try(server.flush)
        streams = sorted(server.h2.streams)
        if streams:
            self._act(server, streams[which % len(streams)], what)

    def _act(self, peer: Peer, stream: int, what: str) -> None:
        acts: dict[str, Callable[[], object]] = {
            "reply": lambda: peer.reply(stream, ("x", VALUE.decode()), body=VALUE),
            "packed": lambda: peer.reply(stream, ("content-encoding", "gzip"), body=PACKED),
            "head": lambda: peer.h2.send_headers(stream, [(":status", "200"), ("content-length", "5")]),
            "hint": lambda: peer.h2.send_headers(stream, [(":status", "103"), ("x", VALUE.decode())]),
            "data": lambda: peer.say(stream, b"hello"),
            "end": lambda: peer.end(stream),
            "trailers": lambda: peer.end(stream, [("x-check", VALUE.decode())]),
            "reset": lambda: peer.reset(stream),
            "refuse": lambda: peer.reset(stream, 7),
            "goodbye": lambda: peer.send(b"\0\0\x08\x07\0\0\0\0\0" + struct.pack("!II", stream - 1, 0)),
        }
        self._try(acts[what])
        self._try(peer.flush)

    def _try(self, act: Callable[[], object]) -> None:
        """What a peer's own library forbids it to say is not said; what the relay raises is a failure."""
        try:
            act()
        except ProtocolError as error:
            places = [frame.filename for frame in extract_tb(error.__traceback__)]
            assert not any(Path(place).is_relative_to(OURS) for place in places), places


Anything.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
AnythingOverHttp2.TestCase.settings = settings(
    max_examples=examples(100), stateful_step_count=40, deadline=None
)
TestAnything = Anything.TestCase
TestAnythingOverHttp2 = AnythingOverHttp2.TestCase
