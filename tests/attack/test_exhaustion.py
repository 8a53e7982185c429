"""Class 22 behind the door: what one sandbox can take of connections, slots, memory and turns of the loop.

S-66 and S-74. Nothing here depends on time: sockets, slots, bytes and turns are counted, and a second
passes when the test says so.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
from itertools import pairwise
from typing import cast

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import pytest
from h2.errors import ErrorCodes
from wsproto.frame_protocol import FrameProtocol

from egress.relay.http2_limits import CLIENT_WINDOW_BYTES
from egress.relay.limits import MIN_WINDOW_BYTES, RelayLimits
from egress.relay.ports import CLIENT_WIRE
from egress.shares.pool import Capacity, Resource, SharePool
from tests.unit.relay.wires import NAME, Lab, Peer, get, h2_lab, head, response

MIB = 1024 * 1024
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def shared(**capacities: Capacity) -> RelayLimits:
    return RelayLimits(pool=SharePool(**capacities), upstream_wait=30)


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
    limits = shared(upstreams=Capacity(1000, 100))
    labs = [uploading(limits)[0] for _ in range(10)]
    assert sum(len(lab.standing) for lab in labs) == 100
    other = Lab(limits=limits)
    other.relay.gone()
    assert limits.pool is not None
    stranger = limits.pool.account("other")
    assert stranger.take(Resource.UPSTREAMS)


def test_whoever_waits_is_carried_when_a_connection_becomes_free() -> None:
    lab, client = uploading(shared(upstreams=Capacity(1000, 2)), 3)
    assert len(lab.standing) == 2
    client.end(1)
    lab.answers(response(), wire=lab.standing[0])
    assert len(lab.requests(lab.standing[0])) == 2, "the third one took its place"
    client.flush()
    assert client.seen(1).body == b"hello"
    lab.check()


def test_whoever_waits_is_carried_when_another_relay_gives_a_connection_back() -> None:
    limits = shared(upstreams=Capacity(1000, 2))
    first, _ = uploading(limits, 2)
    second, _ = uploading(limits, 1)
    assert not second.standing
    first.do(first.relay.gone())
    second.waits(1)
    assert len(second.opening) == 1
    second.check()


def test_whoever_waits_too_long_is_told_why() -> None:
    lab, client = uploading(shared(upstreams=Capacity(1000, 1)), 2)
    lab.waits(29)
    assert lab.codes == []
    lab.waits(2)
    client.take()
    assert client.seen(3).code == "limit.connections"
    assert client.seen(3).header("retry-after")
    assert lab.codes == ["limit.connections"]
    lab.check()


def test_whoever_leaves_waits_for_nothing_any_more() -> None:
    limits = shared(upstreams=Capacity(1000, 1))
    lab, client = uploading(limits, 3)
    client.reset(3)
    client.reset(1)
    assert len(lab.opening) == 1
    lab.opens("http/1.1")
    assert lab.codes == ["client.left"] * 2
    lab.do(lab.relay.gone())
    assert limits.pool is not None
    assert limits.pool.used[Resource.UPSTREAMS] == 0
    assert limits.pool.sandboxes == set()


@pytest.mark.parametrize("fails_at", ["finish", "now", "begin"])
def test_a_relay_that_breaks_gives_everything_back(fails_at: str) -> None:
    limits = shared(upstreams=Capacity(1000, 50))
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
    assert limits.pool is not None
    assert limits.pool.used == [0] * len(Resource)


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
    limits = shared(exchanges=Capacity(20, 20))
    uploading(limits, 30)
    if protocol == "h2":
        lab, client = h2_lab(limits=limits)
        stream = client.ask()
        assert client.seen(stream).code == "limit.exchanges"
    else:
        lab = Lab(limits=limits)
        lab.says(get())
        (answer,) = lab.responses()
        assert (answer.status, answer.code) == (429, "limit.exchanges")
    assert lab.codes == ["limit.exchanges"], "refused, recorded, and nothing was opened"
    assert not lab.opening
    assert limits.pool is not None
    assert limits.pool.used[Resource.EXCHANGES] == 10
    assert limits.pool.account("other").take(Resource.EXCHANGES)


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
def test_a_compressed_response_is_decoded_in_turns(protocol: str) -> None:
    """A kilobyte of it may be a megabyte, and be all of a turn of everybody."""
    body = (os.urandom(4000) + bytes(MIB)) * 6 + b"the end"
    packed = gzip.compress(body)
    lab = Lab(protocol=protocol, steps=STEPS)  # type: ignore[arg-type]  # one of the two
    client = Peer(lab) if protocol == "h2" else None
    if client is None:
        lab.says(get("/v1/x"))
    else:
        client.ask("/v1/x")
    wire = lab.opens("http/1.1")
    lab.is_slow = True
    head_ = head("content-encoding: gzip", f"content-length: {len(packed)}")
    lab.answers(head_ + packed, wire=wire)
    if client is not None:
        client.h2.increment_flow_control_window(2**30)
        client.h2.increment_flow_control_window(2**30, 1)
        client.flush()
    sizes = [0, len(lab.sent[CLIENT_WIRE])]
    # What was decoded last may still wait to be sent when the exchange is over.
    while lab.codes == [] or sizes[-1] > sizes[-2]:
        lab.again()
        sizes.append(len(lab.sent[CLIENT_WIRE]))
    longest = max(later - sooner for sooner, later in pairwise(sizes[1:]))
    assert longest <= (STEPS + 2) * 70 * 1024
    assert sizes[-1] > len(body)
    assert lab.codes == ["rule.allowed"]
    if client is None:
        (answer,) = lab.responses()
        assert answer.body == body
    lab.check()


def test_a_response_that_is_decoded_in_turns_stops_where_its_client_does() -> None:
    packed = gzip.compress((os.urandom(4000) + bytes(MIB)) * 6)
    lab = Lab(steps=STEPS)
    lab.says(get("/v1/x"))
    wire = lab.opens("http/1.1")
    lab.is_slow = True
    lab.answers(head("content-encoding: gzip", f"content-length: {len(packed)}") + packed, wire=wire)
    assert not lab.relay.reads(wire), "nothing more is read meanwhile"
    lab.blocks()
    sent = len(lab.sent[CLIENT_WIRE])
    for _ in range(5):
        lab.again()
    assert len(lab.sent[CLIENT_WIRE]) == sent, "the client does not read"
    lab.drains()
    for _ in range(50):
        lab.again()
    assert lab.codes == ["rule.allowed"]
    lab.check()


# Memory ---------------------------------------------------------------------------------------------


def windows_of(lab: Lab, count: int) -> list[str]:
    """Begin so many responses whose decoders want four MiB each; return the codes of those that end."""
    packed = brotli.compress(os.urandom(5000), lgwin=22)
    for _ in range(count):
        lab.says(get("/v1/x"))
        lab.answers(head("content-encoding: br", "transfer-encoding: chunked"), wire=lab.opens("http/1.1"))
        lab.answers(b"%x\r\n%s\r\n" % (len(packed) - 10, packed[:-10]), wire=lab.standing[-1])
    return lab.codes


def test_decoders_of_one_sandbox_have_so_much_memory_and_leave_some_for_others() -> None:
    """A hundred responses took 1.7 GB."""
    limits = shared(decoders=Capacity(64 * MIB, 64 * MIB))
    labs = [Lab(limits=limits) for _ in range(20)]
    codes = [code for lab in labs for code in windows_of(lab, 1)]
    assert limits.pool is not None
    assert codes == ["limit.memory"] * (20 - 7)
    assert limits.pool.used[Resource.DECODERS] <= 32 * MIB
    assert limits.pool.account("other").take(Resource.DECODERS, 5 * MIB)
    for lab in labs:
        if not lab.closed():
            lab.leaves()
    assert limits.pool.count("box", Resource.DECODERS) == 0, "all of it is given back"


def test_a_decoder_gives_its_memory_back_with_the_end_of_the_body() -> None:
    limits = shared(decoders=Capacity(16 * MIB, 16 * MIB))
    lab = Lab(limits=limits)
    packed = brotli.compress(b"hello" * 100, lgwin=22)
    for _ in range(10):
        lab.says(get("/v1/x"))
        wire = lab.opens("http/1.1") if lab.opening else lab.standing[0]
        lab.answers(head("content-encoding: br", f"content-length: {len(packed)}") + packed, wire=wire)
    assert lab.codes == ["rule.allowed"] * 10
    assert limits.pool is not None
    assert limits.pool.used[Resource.DECODERS] == 0


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
    limits = shared(windows=Capacity(32 * MIB, 32 * MIB))
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
