"""Class 22 behind the door: what one sandbox can take of connections, slots, memory and turns of the loop.

S-66 and S-74. Nothing here depends on time: sockets, slots, bytes and turns are counted, and a second
passes when the test says so.
"""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import cast

import pytest
from h2.errors import ErrorCodes
from wsproto.frame_protocol import FrameProtocol

from egress.audit.facts import AuditStoppedError, Intent
from egress.audit.sink import Sink
from egress.relay.http2_limits import CLIENT_WINDOW_BYTES
from egress.relay.limits import MIN_WINDOW_BYTES, RelayBudgets, RelayLimits
from egress.relay.ports import CLIENT_WIRE
from tests.unit.relay.wires import NAME, Lab, Peer, get, h2_lab, head, response

MIB = 1024 * 1024
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def shared(**bounds: int) -> RelayLimits:
    return RelayLimits(budgets=RelayBudgets(**bounds), upstream_wait=30)


def uploading(limits: RelayLimits, streams: int = 40) -> tuple[Lab, Peer]:
    """A client with so many requests that do not end, to an upstream that speaks HTTP/1.1."""
    lab, client = h2_lab(limits=limits)
    for _ in range(streams):
        client.ask("/v1/notes", method="POST", ends=False)
    if lab.opening:
        lab.opens("http/1.1")
    while lab.opening:
        lab.opens("http/1.1")
    return lab, client


# Upstream connections -------------------------------------------------------------------------------


def test_streams_of_one_sandbox_open_so_many_upstream_connections_and_no_more() -> None:
    """Ten client connections of forty streams: the sandbox has its share, and another one still connects."""
    limits = shared(connections=1000, of_sandbox=100)
    labs = [uploading(limits)[0] for _ in range(10)]
    assert sum(len(lab.standing) for lab in labs) == 100
    other = Lab(limits=limits)
    other.relay.gone()
    assert limits.budgets is not None
    stranger = limits.budgets.account("other")
    assert stranger.connect()


def test_whoever_waits_is_carried_when_a_connection_becomes_free() -> None:
    lab, client = uploading(shared(connections=1000, of_sandbox=2), 3)
    assert len(lab.standing) == 2
    client.end(1)
    lab.answers(response(), wire=lab.standing[0])
    assert len(lab.requests(lab.standing[0])) == 2, "the third one took its place"
    client.flush()
    assert client.seen(1).body == b"hello"
    lab.check()


def test_whoever_waits_is_carried_when_another_relay_gives_a_connection_back() -> None:
    limits = shared(connections=1000, of_sandbox=2)
    first, _ = uploading(limits, 2)
    second, _ = uploading(limits, 1)
    assert not second.standing
    first.do(first.relay.gone())
    second.waits(1)
    assert len(second.opening) == 1
    second.check()


def test_whoever_waits_too_long_is_told_why() -> None:
    lab, client = uploading(shared(connections=1000, of_sandbox=1), 2)
    lab.waits(29)
    assert lab.codes == []
    lab.waits(2)
    client.take()
    assert client.seen(3).code == "limit.connections"
    assert client.seen(3).header("retry-after")
    assert lab.codes == ["limit.connections"]
    lab.check()


def test_whoever_leaves_waits_for_nothing_any_more() -> None:
    limits = shared(connections=1000, of_sandbox=1)
    lab, client = uploading(limits, 3)
    client.reset(3)
    client.reset(1)
    assert len(lab.opening) == 1
    lab.opens("http/1.1")
    assert lab.codes == ["client.left"] * 2
    lab.do(lab.relay.gone())
    assert limits.budgets is not None
    assert limits.budgets.all.connections == 0
    assert limits.budgets.sandboxes == set()


@pytest.mark.parametrize("fails_at", ["finish", "now", "begin"])
def test_a_relay_that_breaks_gives_everything_back(fails_at: str) -> None:
    limits = shared(connections=1000, of_sandbox=50)
    lab, client = uploading(limits, 10)
    lab.desk.fails_at = fails_at
    broke = 0
    for act in (lambda: client.reset(1), client.ask):
        try:
            act()
        except ArithmeticError:
            broke += 1
    assert broke
    lab.relay.shut("internal")
    assert limits.budgets is not None
    whole = limits.budgets.all
    assert (whole.connections, whole.exchanges, whole.window) == (0, 0, 0)


def test_wires_that_are_closed_are_forgotten() -> None:
    lab = Lab()
    for _ in range(50):
        lab.says(get())
        lab.opens()
        lab.answers(response(b"x", "connection: close"))
        assert lab.codes.pop() == "rule.allowed"
    assert lab.relay._open == {CLIENT_WIRE}
    assert not lab.relay._ahead


# Requests under way ---------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
def test_requests_of_one_sandbox_leave_room_for_those_of_another(protocol: str) -> None:
    limits = shared(exchanges=20)
    uploading(limits, 30)
    if protocol == "h2":
        lab, client = h2_lab(limits=limits)
        stream = client.ask()
        assert client.seen(stream).code == "limit.requests"
    else:
        lab = Lab(limits=limits)
        lab.says(get())
        (answer,) = lab.responses()
        assert (answer.status, answer.code) == (429, "limit.requests")
    assert lab.codes == ["limit.requests"], "refused, recorded, and nothing was opened"
    assert not lab.opening
    assert limits.budgets is not None
    assert limits.budgets.all.exchanges == 10
    assert limits.budgets.account("other").begin()


def test_slots_of_the_audit_are_not_all_for_one_sandbox(tmp_path: Path) -> None:
    class Clock:
        def now_ns(self) -> int:
            return 1_800_000_000_000_000_000

        def monotonic(self) -> float:
            return 1.0

    sink = Sink.open(tmp_path / "audit", bytes(range(32)), clock=Clock(), in_flight=64)
    opening = Intent("r", "c", "box", "api.example.test", 443, "GET", ())
    began = [sink.begin(opening) for _ in range(32)]
    if len(began) < 33:
        sink.begin(opening)
    with pytest.raises(AuditStoppedError):
        sink.begin(opening)
    assert sink.may_work("box"), "it is not that the log stands"
    sink.begin(Intent("r", "c", "other", "api.example.test", 443, "GET", ()))
    sink.close()


# Memory ---------------------------------------------------------------------------------------------


def test_what_an_upstream_does_not_read_is_bounded_for_a_connection() -> None:
    """An upload on ten streams at once: what came of it stays within the window of the connection."""
    lab, client = h2_lab()
    streams = [client.ask("/v1/notes", method="POST", ends=False) for _ in range(10)]
    Peer(lab, wire=lab.opens("h2"), reads=False)
    came = 0
    for _ in range(2000):
        for stream in streams:
            if client.h2.local_flow_control_window(stream) >= 16_384:
                client.say(stream, b"x" * 16_384)
                came += 16_384
    assert CLIENT_WINDOW_BYTES <= came <= CLIENT_WINDOW_BYTES + 2 * MIB


def test_the_windows_of_a_sandbox_shrink_with_their_number() -> None:
    limits = shared(window=32 * MIB)
    windows = []
    for _ in range(200):
        _, client = h2_lab(limits=limits)
        windows.append(client.h2.outbound_flow_control_window)
    assert windows[0] == CLIENT_WINDOW_BYTES
    assert windows[-1] == MIN_WINDOW_BYTES
    assert sum(windows) <= 16 * MIB + 200 * MIN_WINDOW_BYTES


# Turns of the loop ----------------------------------------------------------------------------------


HEAD = [(":method", "GET"), (":scheme", "https"), (":authority", NAME), (":path", "/admin")]
STEPS = 10
"""Steps that a turn of these tests has room for."""


def test_requests_that_come_all_at_once_are_answered_in_turns() -> None:
    lab = Lab(steps=STEPS)
    lab.is_slow = True
    lab.says(get("/admin") * 100)
    assert 0 < len(lab.codes) <= STEPS
    assert not lab.relay.reads(CLIENT_WIRE)
    while not lab.relay.reads(CLIENT_WIRE):
        before = len(lab.codes)
        lab.again()
        assert 0 < len(lab.codes) - before <= STEPS + 1
    assert lab.codes == ["rule.none"] * 100


def test_requests_of_http2_are_answered_in_turns() -> None:
    """A head costs as much in HTTP/2, and a byte may stand for all of it."""
    lab, client = h2_lab(steps=STEPS)
    lab.is_slow = True
    for _ in range(90):
        client.h2.send_headers(client.h2.get_next_available_stream_id(), HEAD, end_stream=True)
    lab.says(client.h2.data_to_send())
    assert 0 < len(lab.codes) <= STEPS
    assert not lab.relay.reads(CLIENT_WIRE)
    while not lab.relay.reads(CLIENT_WIRE):
        before = len(lab.codes)
        lab.again()
        assert 0 < len(lab.codes) - before <= STEPS + 1
    assert lab.codes == ["rule.none"] * 90


def test_responses_of_http2_are_read_in_turns() -> None:
    """The same from an upstream: heads that are small on the wire and dear to look at."""
    lab, client = h2_lab(steps=STEPS)
    streams = [client.ask(f"/v1/{number}") for number in range(80)]
    server = Peer(lab, wire=lab.opens("h2"))
    lab.is_slow = True
    for number in range(len(streams)):
        server.h2.send_headers(2 * number + 1, [(":status", "200"), ("x-long", "v" * 3000)], end_stream=True)
    lab.answers(server.h2.data_to_send(), wire=server.wire)
    answered = len(lab.codes)
    assert 0 < answered <= STEPS
    for _ in range(200):
        before = len(lab.codes)
        lab.again()
        assert len(lab.codes) - before <= STEPS + 1
    assert lab.codes == ["rule.allowed"] * 80


def test_tiny_frames_of_data_are_looked_at_in_turns() -> None:
    lab, client = h2_lab(steps=STEPS)
    stream = client.ask("/v1/notes", method="POST", ends=False)
    server = Peer(lab, wire=lab.opens("h2"))
    lab.is_slow = True
    count = 5000
    for _ in range(count):
        client.h2.send_data(stream, b"x")
    lab.says(client.h2.data_to_send())
    server.take()
    seen = len(server.seen(1).body)
    assert 0 < seen <= 9 * STEPS
    assert not lab.relay.reads(CLIENT_WIRE)
    while not lab.relay.reads(CLIENT_WIRE):
        lab.again()
        server.take()
        assert 0 < len(server.seen(1).body) - seen <= 9 * STEPS
        seen = len(server.seen(1).body)
    assert seen == count, "nothing is lost"
    assert not lab.closed()


def test_big_frames_are_not_held() -> None:
    lab, client = h2_lab()
    stream = client.ask("/v1/notes", method="POST", ends=False)
    server = Peer(lab, wire=lab.opens("h2"))
    lab.is_slow = True
    for _ in range(16):
        client.h2.send_data(stream, b"x" * 16_000)
    lab.says(client.h2.data_to_send())
    for _ in range(10):
        server.flush()
    assert len(server.seen(1).body) == 256_000
    assert lab.turns == 0
    assert lab.relay.reads(CLIENT_WIRE)


def websocket(steps: int = 0) -> tuple[Lab, int]:
    lab = Lab(steps=steps)
    fields = (
        "connection: upgrade",
        "upgrade: websocket",
        f"sec-websocket-key: {KEY}",
        "sec-websocket-version: 13",
    )
    lab.says(get("/ws", *fields))
    wire = lab.opens()
    digest = hashlib.sha1(KEY.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11", usedforsecurity=False)
    accept = base64.b64encode(digest.digest()).decode()
    lab.answers(
        head(
            "connection: upgrade",
            "upgrade: websocket",
            f"sec-websocket-accept: {accept}",
            status="101 Switching Protocols",
        )
    )
    lab.new(wire)
    lab.is_slow = True
    return lab, wire


@pytest.mark.parametrize("down", [False, True])
def test_tiny_frames_of_a_websocket_are_looked_at_in_turns(*, down: bool) -> None:
    lab, wire = websocket(steps=STEPS)
    frame = b"\x82\x01x" if down else b"\x82\x81\0\0\0\0x"
    source, target = (wire, CLIENT_WIRE) if down else (CLIENT_WIRE, wire)
    lab.new(target)
    sent = 2000
    lab.begins()
    lab.do(lab.relay.received(source, frame * sent))
    peer = FrameProtocol(client=down, extensions=[])

    def seen() -> int:
        peer.receive_bytes(lab.new(target))
        return sum(1 for _ in peer.received_frames())

    count = seen()
    assert 0 < count <= 9 * STEPS
    assert not lab.relay.reads(source)
    while not lab.relay.reads(source):
        lab.again()
        more = seen()
        assert 0 < more <= 9 * STEPS
        count += more
    assert count == sent, "nothing is lost"
    assert lab.codes == []


def test_a_big_message_passes_in_one_turn() -> None:
    lab, wire = websocket()
    payload = os.urandom(70_000)
    lab.says(b"\x82\xff" + len(payload).to_bytes(8, "big") + b"\0\0\0\0" + payload)
    peer = FrameProtocol(client=False, extensions=[])
    peer.receive_bytes(lab.new(wire))
    assert b"".join(cast("bytes", frame.payload) for frame in peer.received_frames()) == payload
    assert lab.turns == 0


def test_the_end_of_a_connection_waits_for_what_came_before_it() -> None:
    lab, wire = websocket(steps=STEPS)
    lab.answers(b"\x82\x01x" * 1000 + b"\x88\x02\x03\xe8", wire=wire)
    lab.hangs_up(wire)
    assert not lab.closed()
    for _ in range(20):
        lab.again()
    peer = FrameProtocol(client=True, extensions=[])
    peer.receive_bytes(lab.new(CLIENT_WIRE).partition(b"\r\n\r\n")[2] or lab.new(CLIENT_WIRE))
    assert lab.closed()
    assert lab.codes == ["rule.allowed"]
    lab.check()


def test_the_flood_of_nothing_still_ends() -> None:
    """Positive control of the old bound: frames without a byte are cut off, not only slowed down."""
    _, client = h2_lab()
    stream = client.ask("/v1/notes", method="POST", ends=False)
    for _ in range(300):
        client.h2.send_data(stream, b"")
    client.flush()
    assert client.gone == int(ErrorCodes.ENHANCE_YOUR_CALM)
