"""Both directions of a WebSocket; whole conversations are in tests/attack/test_websocket.py."""

from __future__ import annotations

import base64

import pytest
from wsproto.frame_protocol import FrameProtocol, Opcode
from wsproto.utilities import generate_accept_token

from egress.credentials import Canaries, CanaryScan
from egress.exchange import CutExchange, Destination, Exchange, NeedSecrets, Request, Response
from egress.relay.websocket import WebSocketFrames, _goodbye
from egress.types import Place, RuleRef
from tests.unit.relay.wires import IDENTITY, NAME, NEEDLES, NOW, RULES, SECRET, VALUE, policy_of

KEY = base64.b64encode(b"sixteen bytes ok").decode()
ACCEPT = generate_accept_token(KEY.encode()).decode()
ASKED = (("host", NAME), ("sec-websocket-key", KEY))
ANSWERED = (("sec-websocket-accept", ACCEPT),)


def exchange(watch: CanaryScan | None = None) -> Exchange:
    """An exchange that has just switched."""
    to = Destination("https", NAME, 443)
    made = Exchange(policy_of(RULES), IDENTITY, to, needles=NEEDLES, canaries=watch)
    step = made.begin(Request("GET", "/ws", ASKED, upgrade=("websocket",)), NOW)
    assert isinstance(step, NeedSecrets)
    made.provide({"api": SECRET}, NEEDLES)
    made.respond(Response(101, "", ANSWERED))
    return made


def frames() -> WebSocketFrames:
    made = WebSocketFrames.agreed(exchange(), ASKED, ANSWERED)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (ASKED[:1], ANSWERED),
        ((*ASKED, ASKED[1]), ANSWERED),
        (ASKED, ()),
        (ASKED, (*ANSWERED, *ANSWERED)),
        (ASKED, (("sec-websocket-accept", KEY),)),
        (ASKED, (*ANSWERED, ("sec-websocket-extensions", ""))),
    ],
)
def test_heads_that_do_not_agree(
    asked: tuple[tuple[str, str], ...], answered: tuple[tuple[str, str], ...]
) -> None:
    assert WebSocketFrames.agreed(exchange(), asked, answered) is None


def test_each_direction_goes_its_way_and_is_framed_anew() -> None:
    both, client, server = frames(), FrameProtocol(True, []), FrameProtocol(False, [])
    said = bytes(client.send_data("hello"))
    outcome = both.from_client(said)
    assert isinstance(outcome, tuple)
    up, down = outcome
    assert (down, up[2:6] == said[2:6]) == (b"", False)
    server.receive_bytes(up)
    assert [frame.payload for frame in server.received_frames()] == ["hello"]
    outcome = both.from_upstream(bytes(server.send_data(b"a " + VALUE)))
    assert isinstance(outcome, tuple)
    client.receive_bytes(outcome[1])
    assert b"".join(bytes(f.payload) for f in client.received_frames()) == b"a " + b"*" * len(VALUE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "is_seen"),
    [
        ("half, ping, half", True),
        ("half, pong, half", True),
        ("ping of half, message, ping of half", True),
        ("half, ping of half", False),
        ("half, ping", False),
    ],
)
def test_a_canary_is_found_over_frames_of_its_kind(said: str, is_seen: bool) -> None:
    canaries = Canaries.of(bytes(32), [(RuleRef("canaries", "decoy", Place("a", 1, 1)), "github", False)])
    first, second = canaries.all[0].value[:20], canaries.all[0].value[20:]
    both, client = WebSocketFrames(exchange(CanaryScan(canaries))), FrameProtocol(True, [])
    ping, pong, send = client.ping, client.pong, client.send_data
    frames = {
        "half, ping, half": [send(first), ping(b"x"), send(second, fin=True)],
        "half, pong, half": [send(first), pong(b"x"), send(second, fin=True)],
        "ping of half, message, ping of half": [
            *(ping(first.encode()), send("x", fin=True), ping(second.encode()))
        ],
        "half, ping of half": [send(first), ping(second.encode())],
        "half, ping": [send(first), ping(b"x")],
    }
    outcome = both.from_client(b"".join(frames[said]))
    assert (outcome == CutExchange("canary.seen")) is is_seen


def test_a_goodbye_of_both_ends_it() -> None:
    both, client, server = frames(), FrameProtocol(True, []), FrameProtocol(False, [])
    both.from_client(bytes(client.close(1000, "")))
    assert (both.is_closing, both.is_closed) == (True, False)
    assert both.from_client(b"anything") == (b"", b"")
    both.from_upstream(bytes(server.close(1000, "")))
    assert (both.is_closing, both.is_closed) == (True, True)
    assert both.from_upstream(b"anything") == (b"", b"")
    assert both.close_frames("upstream.closed") == (b"", b"")


def closing(data: bytes, *, is_client: bool) -> object:
    """The payload of the only frame in these bytes, as its reader gets it."""
    reader = FrameProtocol(is_client, [])
    reader.receive_bytes(data)
    (said,) = reader.received_frames()
    assert said.opcode is Opcode.CLOSE
    return said.payload


def test_a_farewell_is_said_to_whoever_has_not_heard_one() -> None:
    both, client = frames(), FrameProtocol(True, [])
    both.from_client(bytes(client.close(1000, "")))
    up, down = both.close_frames("access.withdrawn")
    assert up == b""
    assert closing(down, is_client=True) == (1008, "")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("internal", 1011),
        ("upstream.closed", 1011),
        ("upstream.timeout", 1011),
        ("proxy.stopping", 1001),
        ("access.withdrawn", 1008),
        ("response.withheld", 1008),
        ("limit.request_body", 1008),
    ],
)
def test_why_it_ends_is_said_to_the_client(code: str, said: int) -> None:
    up, down = frames().close_frames(code)
    assert closing(up, is_client=False) == (1001, "")
    assert closing(down, is_client=True) == (said, "")


@pytest.mark.parametrize(("bad", "reason"), [(b"\xff" * 20, 1002), (b"\x81\x01\xff", 1007)])
def test_bytes_that_are_no_frames_are_a_fault_of_their_sender(bad: bytes, reason: int) -> None:
    """What came before them goes on; the sender is told what was wrong, and the other one that it failed."""
    client, server = FrameProtocol(True, []), FrameProtocol(False, [])
    both = frames()
    outcome = both.from_client(bytes(client.ping(b"before")) + masked(bad))
    assert isinstance(outcome, tuple)
    server.receive_bytes(outcome[0])
    assert [bytes(frame.payload) for frame in server.received_frames()] == [b"before"]  # type: ignore[arg-type]
    assert (both.fault, outcome[1]) == ("request.malformed", b"")
    up, down = both.close_frames(both.fault)
    assert (closing(up, is_client=False), closing(down, is_client=True)) == ((1011, ""), (reason, ""))
    both = frames()
    outcome = both.from_upstream(bytes(FrameProtocol(False, []).ping(b"before")) + bad)
    assert isinstance(outcome, tuple)
    client.receive_bytes(outcome[1])
    assert [bytes(frame.payload) for frame in client.received_frames()] == [b"before"]  # type: ignore[arg-type]
    assert (both.fault, outcome[0]) == ("upstream.malformed", b"")
    up, down = both.close_frames(both.fault)
    assert (closing(up, is_client=False), closing(down, is_client=True)) == ((reason, ""), (1011, ""))


def masked(frame: bytes) -> bytes:
    """The frame as a client would send it, with a mask of zeros; bytes that are none stay as they are."""
    return frame if frame[0] == 0xFF else frame[:1] + bytes([frame[1] | 0x80]) + bytes(4) + frame[2:]


def test_a_goodbye_without_a_code_is_said_as_a_normal_one() -> None:
    assert _goodbye((1005, "")) == (1000, "")
    assert _goodbye((4321, "why")) == (4321, "why")
    assert _goodbye(b"") == (1000, "")
