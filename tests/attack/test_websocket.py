"""Classes 11 and 12 over WebSocket: a way out that no rule opened, and secrets that come back in frames.

S-25 (denied without a rule), S-75 (pings, pongs, close reasons, compression).
"""

from __future__ import annotations

import base64
import hashlib
import struct

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage

from egress.relay.ports import CLIENT_WIRE
from tests.unit.relay.wires import (
    BLOCKING,
    CLEAR,
    LIMITED,
    NOTHING,
    RULES,
    VALUE,
    Lab,
    get,
    head,
    policy_of,
    response,
)

PLAIN = CLEAR.replace("    http: true\n", "").replace(
    "    allow:", '    allow:\n      - {id: ws, paths: ["/ws"], websocket: true}'
)
KEY = base64.b64encode(b"sixteen bytes ok").decode()
ACCEPT = base64.b64encode(
    hashlib.sha1(KEY.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11", usedforsecurity=False).digest()
).decode()
ASK = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {KEY}")
MASKED = "*" * len(VALUE)


def agree(*fields: str, accept: str = ACCEPT, upgrade: str = "websocket") -> bytes:
    return head(
        f"upgrade: {upgrade}",
        "connection: upgrade",
        *([f"sec-websocket-accept: {accept}"] if accept else []),
        *fields,
        status="101 Switching Protocols",
    )


class Talk:
    """A WebSocket through a relay: both peers are wsproto."""

    def __init__(
        self,
        rules: str = RULES,
        *,
        ahead: bytes = b"",
        behind: bytes = b"",
        filler: str = "",
        steps: int = 0,
    ) -> None:
        self.lab = Lab(rules, steps=steps)
        self.lab.is_slow = steps > 0
        self.lab.says(get("/ws", *ASK) + ahead)
        self.wire = self.lab.opens()
        self.asked = self.lab.new(self.wire)
        self.lab.answers(agree(*([filler] if filler else [])) + behind)
        said = self.lab.new()
        self.answer, _, rest = said.partition(b"\r\n\r\n")
        self.client = Connection(ConnectionType.CLIENT)
        self.server = Connection(ConnectionType.SERVER)
        self.at_client: list[Event] = []
        self.at_server: list[Event] = []
        self._read(self.client, rest, self.at_client)

    def says(self, event: Event) -> None:
        """The client says something."""
        self.lab.says(self.client.send(event))
        self.settle()

    def answers(self, event: Event, *, cut: int = 0) -> None:
        """The upstream says something, in pieces of `cut` bytes."""
        data = self.server.send(event)
        for at in range(0, len(data), cut or len(data)):
            self.lab.answers(data[at : at + (cut or len(data))], wire=self.wire)
        self.settle()

    def raw_down(self, data: bytes) -> None:
        self.lab.answers(data, wire=self.wire)
        self.settle()

    def raw_up(self, data: bytes) -> None:
        self.lab.says(data)
        self.settle()

    def settle(self) -> None:
        """Each peer reads what has come."""
        self._read(self.client, self.lab.new(), self.at_client)
        self._read(self.server, self.lab.new(self.wire), self.at_server)

    def text(self) -> str:
        """All text that came to the client."""
        return "".join(event.data for event in self.at_client if isinstance(event, TextMessage))

    def binary(self) -> bytes:
        return b"".join(bytes(event.data) for event in self.at_client if isinstance(event, BytesMessage))

    @staticmethod
    def _read(peer: Connection, data: bytes, into: list[Event]) -> None:
        if data:
            peer.receive_data(data)
            into += peer.events()


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True, mask: bool = False, rsv: int = 0) -> bytes:
    """Any frame at all."""
    first = (0x80 if fin else 0) | rsv << 4 | opcode
    flag = 0x80 if mask else 0
    if len(payload) < 126:
        size = bytes([flag | len(payload)])
    else:
        size = bytes([flag | 126]) + struct.pack("!H", len(payload))
    return bytes([first]) + size + (b"\0\0\0\0" if mask else b"") + payload


# The handshake ------------------------------------------------------------------------------------


def test_a_websocket_that_a_rule_opens_carries_both_ways() -> None:
    """The control."""
    talk = Talk()
    assert talk.answer.startswith(b"HTTP/1.1 101 ")
    talk.says(TextMessage(data="hello"))
    talk.answers(TextMessage(data="hello yourself"))
    talk.says(BytesMessage(data=b"\0\xff"))
    talk.answers(BytesMessage(data=b"\xff\0"))
    assert talk.at_server == [TextMessage(data="hello"), BytesMessage(data=bytearray(b"\0\xff"))]
    assert (talk.text(), talk.binary()) == ("hello yourself", b"\xff\0")
    talk.says(CloseConnection(code=1000, reason="done"))
    assert not talk.lab.closed()
    talk.answers(CloseConnection(code=1000, reason="done too"))
    assert talk.at_client[-1] == CloseConnection(code=1000, reason="done too")
    assert talk.lab.closed()
    assert talk.lab.ended[talk.wire] == "closed"
    assert talk.lab.codes == ["rule.allowed"]
    assert talk.lab.record.status == 101
    assert talk.lab.record.bytes_up == len("hello") + 2 + len("done")
    talk.lab.check()


def test_s25_no_rule_no_websocket() -> None:
    """S-25: a path that is allowed for requests is not for WebSockets."""
    lab = Lab()
    lab.says(get("/v1/user", *ASK))
    (answer,) = lab.responses()
    assert (answer.status, answer.code) == (426, "rule.websocket")
    assert not lab.opening
    lab.says(get("/v1/user"))
    assert lab.opening, "the control"
    lab.check()


@pytest.mark.parametrize(
    "fields",
    [
        ("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAAP__"),
        ("Upgrade: foo", "Connection: Upgrade"),
        ("Upgrade: websocket, h2c", "Connection: Upgrade"),
        ("Upgrade: websocket/13", "Connection: Upgrade"),
        ("Upgrade: websocket", "Connection: Upgrade", "Content-Length: 5"),
        ("Upgrade: websocket", "Connection: Upgrade", "Transfer-Encoding: chunked"),
    ],
)
def test_nothing_else_is_switched_to(fields: tuple[str, ...]) -> None:
    lab = Lab()
    lab.says(get("/ws", *fields))
    assert not lab.opening
    assert lab.responses()[0].code in {"request.upgrade", "request.malformed"}


@pytest.mark.parametrize(
    "said",
    [
        agree(accept=""),
        agree(accept=KEY),
        agree(accept=ACCEPT.lower()),
        agree(f"sec-websocket-accept: {ACCEPT}"),
        agree("sec-websocket-extensions: permessage-deflate"),
        agree(upgrade="h2c"),
        agree(upgrade="websocket, h2c"),
        agree("content-length: 5"),
        agree("transfer-encoding: chunked"),
        head("upgrade: websocket", f"sec-websocket-accept: {ACCEPT}", status="101 Switching Protocols"),
    ],
)
@pytest.mark.parametrize("rules", ["with secrets", "without"])
def test_a_switch_that_is_not_the_one_asked_for_is_no_switch(said: bytes, rules: str) -> None:
    """Wrong proof, extensions that nobody offered, another protocol, a body."""
    lab = Lab(RULES if rules == "with secrets" else PLAIN)
    lab.says(get("/ws", *ASK))
    wire = lab.opens()
    lab.answers(said + frame(1, b"raw"))
    (answer,) = lab.responses()
    assert answer.status == {"upstream.malformed": 502, "response.withheld": 403}[answer.code]
    assert b"raw" not in lab.sent[CLIENT_WIRE]
    assert lab.ended[wire] == "closed"
    lab.check()


def test_a_switch_that_nobody_asked_for_is_no_switch() -> None:
    lab = Lab()
    lab.says(get())
    lab.opens()
    lab.answers(agree() + frame(1, b"raw"))
    assert lab.responses()[0].code == "upstream.malformed"
    lab.says(frame(1, b"up", mask=True))
    assert b"up" not in lab.sent[1]


def test_an_upstream_may_decline() -> None:
    lab = Lab()
    lab.says(get("/ws", *ASK))
    lab.opens()
    lab.answers(response(b"no", status="426 Upgrade Required"))
    lab.says(get("/v1/next"))
    lab.answers(response(b"yes"))
    assert [answer.body for answer in lab.responses()] == [b"no", b"yes"]
    assert lab.codes == ["rule.allowed"] * 2


def test_offers_of_compression_do_not_travel() -> None:
    for rules in (RULES, PLAIN):
        lab = Lab(rules)
        lab.says(get("/ws", *ASK, "Sec-WebSocket-Extensions: permessage-deflate"))
        wire = lab.opens()
        assert b"permessage" not in lab.sent[wire].lower()
        assert lab.requests(wire)[0].headers["sec-websocket-key"] == KEY


def test_what_is_sent_ahead_of_the_switch_are_frames_and_nothing_else() -> None:
    early = frame(1, b"early", mask=True)
    talk = Talk(ahead=early, behind=frame(1, b"so are we"))
    talk.settle()
    assert talk.at_server == [TextMessage(data="early")]
    assert talk.text() == "so are we"
    lab = Lab()
    lab.says(get("/ws", *ASK) + early)
    wire = lab.opens()
    assert lab.requests(wire)[0].is_whole
    lab.answers(response(b"no", status="403 Forbidden"))
    assert b"early" not in lab.sent[wire]
    assert lab.codes[-1] == "request.malformed", "without a switch they are a request that is none"


@pytest.mark.parametrize("length", [1000, 4000, 9000])
def test_what_comes_with_the_switch_keeps_its_order(length: int) -> None:
    said = b"".join(frame(1, b"%d" % number + b"." * length) for number in range(6))
    talk = Talk(behind=said)
    talk.settle()
    assert [text[0] for text in talk.text().split(".") if text] == list("012345")
    assert talk.lab.codes == []


def test_what_waits_behind_a_head_that_fills_its_piece_is_frames_too() -> None:
    size = 8 * 1024 - len(agree()) - len("x-filler: \r\n")
    talk = Talk(filler=f"x-filler: {'y' * size}", behind=frame(1, b"hello") * 100)
    talk.settle()
    assert talk.text() == "hello" * 100


def test_s75_tiny_frames_that_come_with_the_switch_wait_for_turns_like_any_other() -> None:
    """Frames cost more than they carry, from the first one on."""
    talk = Talk(behind=frame(9, b"") * 4000, steps=10)
    talk.settle()
    assert 0 < len(talk.at_client) <= 90
    while not talk.lab.relay.reads(talk.wire):
        before = len(talk.at_client)
        talk.lab.again()
        talk.settle()
        assert 0 < len(talk.at_client) - before <= 90
    assert len(talk.at_client) == 4000


# Secrets that come back -----------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 1, 7])
def test_s75_messages_are_searched_however_they_are_cut(cut: int) -> None:
    talk = Talk()
    shown = VALUE.decode()
    talk.answers(TextMessage(data=f"a {shown} b"), cut=cut)
    talk.answers(BytesMessage(data=b"a " + VALUE + b" b"), cut=cut)
    for number, each in enumerate(shown):
        talk.answers(TextMessage(data=each, message_finished=number == len(shown) - 1), cut=cut)
    assert talk.text() == f"a {MASKED} b" + MASKED
    assert talk.binary() == f"a {MASKED} b".encode()
    talk.answers(CloseConnection(code=1000))
    talk.says(CloseConnection(code=1000))
    assert dict(talk.lab.record.scrubbed) == {"api": 3}


def test_two_messages_are_not_one() -> None:
    """What ends a message is not held for the next: each is searched on its own."""
    talk = Talk()
    talk.answers(TextMessage(data=VALUE.decode()[:10]))
    assert talk.text() == VALUE.decode()[:10]
    talk.answers(TextMessage(data=VALUE.decode()[10:]))
    assert talk.text() == VALUE.decode()


@pytest.mark.parametrize("say", [Ping, Pong])
def test_s75_pings_and_pongs_are_searched(say: type[Ping | Pong]) -> None:
    talk = Talk()
    talk.answers(TextMessage(data="half of a mess", message_finished=False))
    talk.answers(say(payload=b"a " + VALUE))
    talk.answers(say(payload=b"plain"))
    talk.answers(TextMessage(data="age"))
    heard = [bytes(event.payload) for event in talk.at_client if isinstance(event, Ping | Pong)]
    assert heard == [f"a {MASKED}".encode(), b"plain"]
    assert talk.text() == "half of a message"


def test_pings_and_pongs_of_the_client_go_up_and_are_not_answered_by_us() -> None:
    talk = Talk()
    talk.says(Ping(payload=b"ping"))
    talk.says(Pong(payload=b"pong"))
    heard = [(type(each), bytes(each.payload)) for each in talk.at_server if isinstance(each, Ping | Pong)]
    assert heard == [(Ping, b"ping"), (Pong, b"pong")]
    assert talk.at_client == []
    assert talk.lab.codes == []


def test_s75_the_reason_of_a_close_is_searched() -> None:
    talk = Talk()
    talk.answers(CloseConnection(code=1008, reason=f"because {VALUE.decode()}"))
    assert talk.at_client == [CloseConnection(code=1008, reason=f"because {MASKED}")]


def test_the_head_of_the_switch_is_searched() -> None:
    lab = Lab()
    lab.says(get("/ws", *ASK))
    lab.opens()
    lab.answers(agree(f"x-echo: {VALUE.decode()}", "sec-websocket-protocol: chat"))
    assert b"101" in lab.sent[CLIENT_WIRE]
    assert MASKED.encode() in lab.sent[CLIENT_WIRE]
    assert b"sec-websocket-protocol: chat" in lab.sent[CLIENT_WIRE]


@pytest.mark.parametrize(
    "event",
    [
        TextMessage(data=f"a {VALUE.decode()}"),
        BytesMessage(data=VALUE),
        Ping(payload=VALUE),
        Pong(payload=VALUE),
        CloseConnection(code=1000, reason=VALUE.decode()),
    ],
)
def test_where_secrets_are_blocked_the_conversation_ends(event: Event) -> None:
    talk = Talk(BLOCKING)
    talk.answers(TextMessage(data="harmless"))
    talk.answers(event)
    assert talk.text() == "harmless"
    assert [each.code for each in talk.at_client if isinstance(each, CloseConnection)] == [1008]
    assert [each.code for each in talk.at_server if isinstance(each, CloseConnection)] == [1001]
    assert talk.lab.closed()
    assert talk.lab.ended[talk.wire] == "closed"
    assert talk.lab.codes == ["response.withheld"]
    talk.lab.check()


def test_text_that_is_cut_inside_a_character_stays_text() -> None:
    talk = Talk()
    text = "\u00e9\u20ac\U0001f600" * 20 + VALUE.decode() + "\u00e9"
    talk.answers(TextMessage(data=text), cut=1)
    assert talk.text() == text.replace(VALUE.decode(), MASKED)
    talk.raw_down(frame(1, "\u20ac".encode()[:1], fin=False) + frame(0, "\u20ac".encode()[1:]))
    assert talk.text().endswith("\u20ac")
    assert not talk.lab.closed()


def test_nothing_of_a_conversation_is_in_the_record() -> None:
    talk = Talk()
    talk.says(TextMessage(data="marker-up"))
    talk.answers(CloseConnection(code=1000, reason="marker-down"))
    talk.says(CloseConnection(code=1000))
    assert "marker" not in repr(talk.lab.desk.records)
    assert "marker" not in repr(talk.lab.orders)
    assert VALUE.decode() not in repr(talk.lab.orders)


# Faults ---------------------------------------------------------------------------------------------

WRONG, NO_TEXT = 1002, 1007
"""The codes that RFC 6455 gives a peer that broke the framing, and one whose text is no UTF-8."""

FAULTS: dict[str, tuple[int, dict[str, int | bytes | bool]]] = {
    **{f"reserved bits {bits}": (WRONG, {"opcode": 1, "payload": b"x", "rsv": bits}) for bits in range(1, 8)},
    "reserved bit of a ping": (WRONG, {"opcode": 9, "rsv": 1}),
    "reserved bit of a close": (WRONG, {"opcode": 8, "payload": b"\x03\xe8", "rsv": 4}),
    **{f"opcode {code}": (WRONG, {"opcode": code}) for code in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
    "unknown opcode with a payload": (WRONG, {"opcode": 3, "payload": b"x"}),
    "fragmented ping": (WRONG, {"opcode": 9, "fin": False}),
    "fragmented pong": (WRONG, {"opcode": 10, "payload": b"x", "fin": False}),
    "fragmented close": (WRONG, {"opcode": 8, "payload": b"\x03\xe8", "fin": False}),
    "oversized ping": (WRONG, {"opcode": 9, "payload": b"x" * 126}),
    "oversized close": (WRONG, {"opcode": 8, "payload": b"\x03\xe8" + b"x" * 124}),
    "close of one byte": (WRONG, {"opcode": 8, "payload": b"\x03"}),
    **{
        f"close with {code}": (WRONG, {"opcode": 8, "payload": struct.pack("!H", code)})
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)
    },
    "close that is no text": (NO_TEXT, {"opcode": 8, "payload": b"\x03\xe8\xff"}),
    "continuation of nothing": (WRONG, {"opcode": 0, "payload": b"x"}),
    "continuation of nothing, unfinished": (WRONG, {"opcode": 0, "payload": b"x", "fin": False}),
    "text that is none": (NO_TEXT, {"opcode": 1, "payload": b"\xff"}),
    "text that begins as one": (NO_TEXT, {"opcode": 1, "payload": b"plain \xf4\x90\x80\x80", "fin": False}),
    "text that stops in a character": (NO_TEXT, {"opcode": 1, "payload": b"\xe2\x82"}),
    "text with a surrogate": (NO_TEXT, {"opcode": 1, "payload": b"\xed\xa0\x80"}),
    "text that is longer than it need be": (NO_TEXT, {"opcode": 1, "payload": b"\xc0\xaf"}),
}


def said(events: list[Event]) -> tuple[bytes, list[int]]:
    """The data that came before an end, and the codes of that end."""
    before = b"".join(
        each.data.encode() if isinstance(each, TextMessage) else bytes(each.data)
        for each in events
        if isinstance(each, TextMessage | BytesMessage)
    )
    return before, [each.code for each in events if isinstance(each, CloseConnection)]


@pytest.mark.parametrize("code_and_fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("before", [b"", b"before"], ids=["first", "later"])
def test_a_frame_that_is_none_ends_it(
    code_and_fault: tuple[int, dict[str, int | bytes | bool]], before: bytes
) -> None:
    """The peer that sent it is told what was wrong, the other one that its peer has failed."""
    code, fault = code_and_fault
    down, up = Talk(), Talk()
    down.raw_down((frame(2, before) if before else b"") + frame(**fault))  # type: ignore[arg-type]
    up.raw_up((frame(2, before, mask=True) if before else b"") + frame(**fault, mask=True))  # type: ignore[arg-type]
    assert (down.lab.codes, up.lab.codes) == (["upstream.malformed"], ["request.malformed"])
    assert (said(down.at_client)[1], said(down.at_server)) == ([1011], (b"", [code]))
    assert (said(up.at_server)[1], said(up.at_client)) == ([1011], (b"", [code]))
    assert said(down.at_client)[0] == said(up.at_server)[0] == before
    for talk in (down, up):
        assert talk.lab.closed()
        assert talk.lab.ended[talk.wire] == "closed"
        talk.lab.check()


@pytest.mark.parametrize("opcode", [1, 2])
def test_a_message_within_a_message_is_a_fault(opcode: int) -> None:
    talk = Talk()
    talk.raw_up(frame(1, b"begun", fin=False, mask=True) + frame(opcode, b"another", mask=True))
    assert (said(talk.at_server), said(talk.at_client)) == ((b"begun", [1011]), (b"", [WRONG]))
    talk = Talk()
    talk.raw_down(frame(1, b"begun", fin=False) + frame(opcode, b"another"))
    assert (said(talk.at_client)[1], said(talk.at_server)) == ([1011], (b"", [WRONG]))


def test_text_is_judged_over_the_frames_of_its_message() -> None:
    """A character may be cut between frames; what follows it may not be wrong."""
    talk = Talk()
    talk.raw_up(frame(1, b"\xe2\x82", fin=False, mask=True) + frame(0, b"\xac", mask=True))
    assert said(talk.at_server) == ("\u20ac".encode(), [])
    talk.raw_up(frame(1, b"\xe2\x82", fin=False, mask=True) + frame(0, b"\x28", mask=True))
    assert said(talk.at_server) == ("\u20ac".encode(), [1011])
    assert said(talk.at_client) == (b"", [NO_TEXT])


@pytest.mark.parametrize(
    "code", [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999]
)
def test_a_code_that_a_peer_may_say_is_passed_on(code: int) -> None:
    """The control: these close frames are no faults."""
    up, down = Talk(), Talk()
    up.raw_up(frame(8, struct.pack("!H", code) + b"why", mask=True))
    down.raw_down(frame(8, struct.pack("!H", code) + b"why"))
    assert up.at_server == down.at_client == [CloseConnection(code=code, reason="why")]
    assert not up.at_client
    assert not down.at_server


def test_masks_are_for_clients_and_only_for_them() -> None:
    talk = Talk()
    talk.raw_up(frame(1, b"unmasked"))
    assert talk.lab.codes == ["request.malformed"]
    talk = Talk()
    talk.raw_down(frame(1, b"masked", mask=True))
    assert talk.lab.codes == ["upstream.malformed"]


def test_what_leaves_is_masked_anew() -> None:
    talk = Talk()
    talk.raw_up(frame(1, b"zero mask", mask=True) * 5)
    assert b"zero mask" not in talk.lab.sent[talk.wire]
    assert [event.data for event in talk.at_server if isinstance(event, TextMessage)] == ["zero mask"] * 5


def test_nothing_follows_a_close() -> None:
    talk = Talk()
    talk.raw_up(frame(8, b"\x03\xe8", mask=True) + frame(1, b"late", mask=True))
    talk.raw_up(frame(1, b"later", mask=True))
    assert [type(event) for event in talk.at_server] == [CloseConnection]
    talk.raw_down(frame(1, b"still here") + frame(8, b"\x03\xe8") + frame(1, b"late"))
    assert talk.text() == "still here"
    assert talk.lab.closed()
    assert talk.lab.codes == ["rule.allowed"]
    talk.lab.check()


def test_messages_count_against_the_limits_of_bodies() -> None:
    talk = Talk(LIMITED)
    talk.says(TextMessage(data="x" * 60))
    talk.says(TextMessage(data="x" * 60))
    assert talk.lab.codes == ["limit.request_body"]
    talk = Talk(LIMITED)
    for _ in range(9):
        talk.answers(BytesMessage(data=b"x" * 120))
    assert talk.lab.codes == ["limit.response_body"]
    assert talk.lab.closed()


def test_a_frame_of_any_size_is_passed_on_as_it_comes() -> None:
    """Eight exabytes are announced: what has come goes on, and nothing is gathered."""
    talk = Talk()
    talk.lab.answers(bytes([0x82, 127]) + struct.pack("!Q", 2**62), wire=talk.wire)
    for _ in range(50):
        talk.lab.answers(b"x" * 65_536, wire=talk.wire)
    assert len(talk.lab.sent[CLIENT_WIRE]) > 50 * 65_536 - 100
    talk.lab.says(bytes([0x82, 255]) + struct.pack("!Q", 2**62) + b"\0" * 4)
    for _ in range(50):
        talk.lab.says(b"x" * 65_536)
    assert len(talk.lab.sent[talk.wire]) > 50 * 65_536 - 100


# Ends -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["client", "upstream", "both", "neither"])
def test_a_connection_that_ends_leaves_one_record(who: str) -> None:
    """After a goodbye an end is in order; without one it is not."""
    talk = Talk()
    if who in {"client", "both"}:
        talk.says(CloseConnection(code=1000))
    if who in {"upstream", "both"}:
        talk.answers(CloseConnection(code=1000))
    if who != "both":
        talk.lab.hangs_up(talk.wire)
    assert talk.lab.closed()
    assert talk.lab.codes == ["upstream.closed" if who == "neither" else "rule.allowed"]
    talk.lab.check()


def test_a_client_that_leaves_is_recorded() -> None:
    talk = Talk()
    talk.lab.leaves()
    assert talk.lab.codes == ["client.left"]
    assert talk.lab.ended[talk.wire] == "closed"
    talk.lab.check()


def test_a_rule_that_is_withdrawn_ends_a_conversation_politely() -> None:
    talk = Talk()
    talk.lab.do(talk.lab.relay.recheck(policy_of(NOTHING), 0))
    talk.settle()
    assert talk.at_client == [CloseConnection(code=1008, reason="")]
    assert talk.at_server == [CloseConnection(code=1001, reason="")]
    assert talk.lab.codes == ["access.withdrawn"]
    talk.lab.check()


def test_silence_ends_a_conversation_and_pings_keep_it() -> None:
    talk = Talk()
    for _ in range(4):
        talk.lab.waits(800, steps=8)
        talk.answers(Ping(payload=b""))
    assert not talk.lab.closed()
    talk.lab.waits(1100, steps=11)
    assert talk.lab.codes == ["upstream.timeout"]
    talk.lab.check()


@pytest.mark.parametrize("wire", [CLIENT_WIRE, 1])
def test_a_side_that_does_not_read_holds_the_other(wire: int) -> None:
    talk = Talk()
    talk.lab.blocks(wire)
    assert not talk.lab.relay.reads(1 if wire == CLIENT_WIRE else CLIENT_WIRE)
    assert talk.lab.relay.reads(wire)
    talk.lab.drains(wire)
    assert talk.lab.relay.reads(1 if wire == CLIENT_WIRE else CLIENT_WIRE)
