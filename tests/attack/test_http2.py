"""Class 9 and 22 over HTTP/2: heads that become something else, and peers that make work or hold memory.

S-73 (a body that is a second request), S-74 (windows that never open, rapid resets, floods, many streams
that all have to move). Nothing here depends on time: a second passes when the test says so.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from egress.relay.http2_limits import CLIENT_WINDOW_BYTES
from egress.relay.http2_send_queue import STREAM_HIGH_BYTES, TOTAL_HIGH_BYTES
from egress.relay.limits import RelayLimits
from egress.relay.ports import CLIENT_WIRE
from tests.unit.relay.wires import (
    LIMITED,
    NAME,
    NOTHING,
    VALUE,
    Lab,
    Peer,
    both_h2,
    get,
    h2_lab,
    head,
    policy_of,
    response,
)

CALM = int(ErrorCodes.ENHANCE_YOUR_CALM)
GOOD = [(":method", "GET"), (":scheme", "https"), (":authority", NAME), (":path", "/v1/user")]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack("!I", len(payload))[1:] + bytes([kind, flags]) + struct.pack("!I", stream) + payload


def wrong(fields: dict[str, str], *more: tuple[str, str]) -> list[tuple[str, str]]:
    """The good head with some pseudo-header fields changed, and more fields."""
    return [(name, fields.get(name, value)) for name, value in GOOD] + list(more)


# Heads --------------------------------------------------------------------------------------------


def test_s73_a_body_that_reads_as_a_request_is_a_body() -> None:
    """S-73: no content-length, an HTTP/1 upstream, and DATA that is a second request."""
    lab, client = h2_lab()
    client.ask("/v1/notes", method="POST", body=get("/v1/inner", method="DELETE"))
    wire = lab.opens("http/1.1")
    (asked,) = lab.requests(wire)
    assert (asked.method, asked.body) == ("POST", get("/v1/inner", method="DELETE"))
    assert asked.headers["transfer-encoding"] == "chunked"
    lab.answers(response())
    client.flush()
    assert client.seen(1).body == b"hello"
    lab.check()


REFUSED = {
    "space in method": wrong({":method": "DELETE /v1/x?a="}),
    "line in method": wrong({":method": "GET / HTTP/1.1\r\nx: y"}),
    "lower-case method": wrong({":method": "get"}),
    "CONNECT": wrong({":method": "CONNECT"}),
    "TRACE": wrong({":method": "TRACE"}),
    "space in path": wrong({":path": "/v1/a HTTP/1.1"}),
    "line in path": wrong({":path": "/v1/a\r\nhost: evil"}),
    "absolute path": wrong({":path": "https://evil.example.test/v1/user"}),
    "absolute path to ourselves": wrong({":path": f"https://{NAME}/v1/user"}),
    "path without slash": wrong({":path": "v1/user"}),
    "path of another host": wrong({":path": "//evil.example.test/v1/user"}),
    "asterisk": wrong({":path": "*"}),
    "empty path": wrong({":path": ""}),
    "fragment": wrong({":path": "/v1/user#/../admin"}),
    "dots": wrong({":path": "/v1/../admin"}),
    "escaped dots": wrong({":path": "/v1/%2e%2e/admin"}),
    "authority": wrong({":authority": "evil.example.test"}),
    "authority with user": wrong({":authority": f"x@{NAME}"}),
    "authority with port": wrong({":authority": f"{NAME}:8443"}),
    "empty authority": wrong({":authority": ""}),
    "other host": wrong({}, ("host", "evil.example.test")),
    "two hosts": wrong({}, ("host", NAME), ("host", NAME)),
    "scheme": wrong({":scheme": "http"}),
    "odd scheme": wrong({":scheme": "https://x/?"}),
    "two methods": [(":method", "GET"), *GOOD],
    "two paths": [(":path", "/admin"), *GOOD],
    "pseudo behind": [*GOOD[:3], ("x-a", "b"), GOOD[3]],
    "unknown pseudo": [*GOOD, (":foo", "bar")],
    "status": [*GOOD, (":status", "200")],
    "no path": GOOD[:3],
    "no method": GOOD[1:],
    "extended connect": wrong({":method": "CONNECT"}, (":protocol", "websocket")),
    "protocol on GET": wrong({}, (":protocol", "websocket")),
    "upper-case name": wrong({}, ("X-Upper", "1")),
    "empty name": wrong({}, ("", "1")),
    "space in name": wrong({}, ("x y", "1")),
    "colon in name": wrong({}, ("x:y", "1")),
    "line in name": wrong({}, ("x\r\ny", "1")),
    "line in value": wrong({}, ("x", "1\r\nauthorization: none")),
    "bare CR in value": wrong({}, ("x", "1\r2")),
    "NUL in value": wrong({}, ("x", "1\0")),
    "space around value": wrong({}, ("x", " 1")),
    "connection": wrong({}, ("connection", "close, authorization")),
    "keep-alive": wrong({}, ("keep-alive", "1")),
    "proxy-connection": wrong({}, ("proxy-connection", "close")),
    "transfer-encoding": wrong({}, ("transfer-encoding", "chunked")),
    "upgrade": wrong({}, ("upgrade", "websocket")),
    "te": wrong({}, ("te", "gzip")),
    "length without body": wrong({}, ("content-length", "5")),
    "two lengths": wrong({":method": "POST"}, ("content-length", "0"), ("content-length", "5")),
    "signed length": wrong({":method": "POST"}, ("content-length", "+0")),
    "grouped length": wrong({":method": "POST"}, ("content-length", "0_0")),
    "octal length": wrong({":method": "POST"}, ("content-length", "00")),
    "lookalike": wrong({":method": "POST"}, ("content_length", "5")),
}


@pytest.mark.parametrize("fields", REFUSED.values(), ids=REFUSED)
def test_a_head_that_is_not_one_goes_nowhere(fields: list[tuple[str, str]]) -> None:
    """Rows 9 and 3.20 of the threats: refused with a page, by ending the stream, or the connection."""
    lab, client = h2_lab()
    client.ask_with(fields)
    assert not lab.opening
    assert lab.desk.begun == []
    seen = client.seen(1)
    assert lab.closed() or seen.reset is not None or seen.status >= 400
    assert len(lab.desk.records) == 1
    assert lab.codes[0] not in {"rule.allowed", "internal"}
    assert b"evil" not in lab.sent[CLIENT_WIRE]
    lab.check()


@pytest.mark.parametrize(
    "more", [(), (("te", "trailers"),), (("content-length", "0"),), (("host", NAME),), (("x", "\xe9"),)]
)
def test_a_head_that_is_one_goes_on(more: tuple[tuple[str, str], ...]) -> None:
    """The control."""
    lab, client = h2_lab()
    client.ask_with(wrong({":authority": NAME.upper() if not more else NAME}, *more))
    lab.opens("h2")
    assert lab.desk.begun
    assert lab.standing


def test_bytes_beyond_ascii_arrive_as_they_were_sent() -> None:
    """One character of a head is one byte of the wire, in both directions."""
    lab, client = h2_lab()
    fields = [(name.encode(), value.encode()) for name, value in GOOD]
    client.h2.send_headers(1, [*fields, (b"x-name", b"\xc3\xa9\xff")], end_stream=True)
    client.flush()
    server = Peer(lab, wire=lab.opens("h2"))
    assert server.seen(1).header("x-name").encode("latin-1") == b"\xc3\xa9\xff"
    server.h2.send_headers(1, [(b":status", b"200"), (b"x-name", b"\xe9")], end_stream=True)
    server.flush()
    client.flush()
    assert client.seen(1).header("x-name") == "\xe9"


@pytest.mark.parametrize("alpn", ["http/1.1", "h2"])
@pytest.mark.parametrize(("stated", "body"), [(5, b"hell"), (5, b"hello!"), (0, b"x"), (5, b"")])
@pytest.mark.parametrize("trailers", [False, True])
def test_data_that_is_not_as_long_as_stated_is_no_request(
    alpn: str, stated: int, body: bytes, *, trailers: bool
) -> None:
    """Where trailers end the stream the library counts nothing, and we do."""
    lab, client = h2_lab()
    stream = client.ask("/v1/notes", ("content-length", str(stated)), method="POST", ends=False)
    wire = lab.opens(alpn)
    server = Peer(lab, wire=wire) if alpn == "h2" else None
    if body:
        client.say(stream, body)
    if not lab.closed():
        client.end(stream, [("x-check", "1")] if trailers else None)
    assert lab.codes[0] in {"request.malformed", "client.left"}
    if server is None:
        # A stated length of nothing is a whole request, framed by us; what follows it is gone.
        assert not [asked for asked in lab.requests(wire) if asked.is_whole and stated]
        assert wire in lab.ended
    elif wire not in lab.ended:
        server.flush()
        assert not server.seen(1).is_whole
    lab.check()


@pytest.mark.parametrize("alpn", ["http/1.1", "h2"])
@pytest.mark.parametrize("trailers", [False, True])
def test_data_that_is_as_long_as_stated_arrives(alpn: str, *, trailers: bool) -> None:
    """The control; trailers of a request stay here."""
    lab, client = h2_lab()
    stream = client.ask("/v1/notes", ("content-length", "5"), method="POST", ends=False)
    wire = lab.opens(alpn)
    client.say(stream, b"hello")
    client.end(stream, [("authorization", "none")] if trailers else None)
    if alpn == "h2":
        server = Peer(lab, wire=wire)
        assert (server.seen(1).body, server.seen(1).is_whole) == (b"hello", True)
        assert server.seen(1).trailers == []
    else:
        (asked,) = lab.requests(wire)
        assert (asked.body, asked.is_whole, asked.headers["content-length"]) == (b"hello", True, "5")
        assert b"none" not in lab.sent[wire]


def test_cookies_in_pieces_are_one_cookie() -> None:
    lab, client = h2_lab()
    client.ask("/v1/user", ("cookie", "a=1"), ("cookie", "b=2"))
    wire = lab.opens()
    assert lab.requests(wire)[0].headers["cookie"] == "a=1; b=2"


def test_a_denied_head_request_gets_a_head() -> None:
    _, client = h2_lab()
    client.ask("/admin", method="HEAD")
    seen = client.seen(1)
    assert (seen.status, seen.body, seen.is_whole) == (403, b"", True)
    client.ask("/admin")
    assert json.loads(client.seen(3).body)["error"]["code"] == "rule.none"


# Responses of an upstream that speaks HTTP/2 ------------------------------------------------------------


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_a_response_without_a_body_is_whole(method: str, *, ends: bool) -> None:
    lab, client = h2_lab()
    client.ask(method=method)
    server = Peer(lab, wire=lab.opens("h2"))
    length = [("content-length", "5")] if method == "HEAD" else []
    server.reply(1, *length, body=None if ends else b"")
    client.flush()
    assert (client.seen(1).status, client.seen(1).is_whole) == (200, True)
    assert client.seen(1).header("content-length") == ("5" if method == "HEAD" else "")
    lab.check()


@pytest.mark.parametrize(
    ("fields", "body", "trailers"),
    [
        ([("content-length", "5")], None, None),
        ([("content-length", "5")], b"abc", [("x-check", "1")]),
        ([("content-length", "5")], b"", [("x-check", "1")]),
        ([("content-length", "+5")], b"hello", None),
        ([("content-length", "5"), ("content-length", "5")], b"hello", None),
        ([("content-encoding", "gzip")], b"hello", None),
        ([("X-Upper", "1")], b"hello", None),
        ([("x", "1\r\n2")], b"hello", None),
        ([("connection", "close")], b"hello", None),
        ([(":path", "/")], b"hello", None),
    ],
)
def test_a_response_that_lies_is_not_passed_on_as_whole(
    fields: list[tuple[str, str]], body: bytes | None, trailers: list[tuple[str, str]] | None
) -> None:
    lab, client, server, stream = both_h2()
    server.reply(stream, *fields, body=body, ends=trailers is None)
    if trailers:
        server.h2.send_headers(stream, trailers, end_stream=True)
        server.flush()
    client.flush()
    assert lab.codes == ["upstream.malformed"]
    seen = client.seen(1)
    assert seen.code == "upstream.malformed" or seen.reset is not None
    lab.check()


@pytest.mark.parametrize("status", ["099", "600", "1000", "2xx", "101", "", "\xb2\xb2\xb2"])
def test_a_status_that_is_none_is_no_answer(status: str) -> None:
    lab, client, server, stream = both_h2()
    server.h2.send_headers(stream, [(":status", status)])
    server.flush()
    client.flush()
    assert lab.codes == ["upstream.malformed"]
    assert client.seen(1).status == 502


def test_the_secret_does_not_come_back_by_any_way() -> None:
    _, client, server, stream = both_h2()
    shown = VALUE.decode()
    assert server.seen(stream).header("authorization") == f"Bearer {shown}"
    server.h2.send_headers(stream, [(":status", "103"), ("x-a", shown)])
    server.reply(stream, ("x-b", shown), (f"x-{shown}", "1"), body=VALUE[:10], ends=False)
    server.say(stream, VALUE[10:])
    server.end(stream, [("x-c", shown)])
    client.flush()
    seen = client.seen(1)
    everything = [seen.headers, seen.trailers, seen.body, client.events]
    assert shown not in repr(everything)
    assert seen.body == b"*" * len(VALUE)
    assert seen.is_whole


def test_a_push_of_the_upstream_is_refused() -> None:
    lab, client, server, stream = both_h2()
    server.send(frame(5, 4, stream, struct.pack("!I", 2) + b"\x82"))
    client.flush()
    assert lab.codes == ["upstream.malformed"]


# Memory: windows that do not open -------------------------------------------------------------------


def never_reads(lab: Lab) -> Peer:
    """A client whose windows are closed from the beginning."""
    return Peer(lab, settings={SettingCodes.INITIAL_WINDOW_SIZE: 0}, reads=False)


@pytest.mark.parametrize("alpn", ["http/1.1", "h2"])
def test_s74_a_window_that_never_opens_holds_the_upstream(alpn: str) -> None:
    """S-74: what is held stays within the bounds of the outbox, however fast the upstream is."""
    lab = Lab(protocol="h2")
    client = never_reads(lab)
    client.ask()
    wire = lab.opens(alpn)
    handed = 0
    if alpn == "h2":
        server = Peer(lab, wire=wire)
        server.h2.send_headers(1, [(":status", "200")])
        while server.h2.local_flow_control_window(1) >= 16_384:
            server.say(1, b"x" * 16_384)
            handed += 16_384
    else:
        lab.answers(head("Content-Length: 100000000"))
        while lab.relay.reads(wire):
            lab.answers(b"x" * 65_536)
            handed += 65_536
    assert STREAM_HIGH_BYTES < handed <= STREAM_HIGH_BYTES + 2 * 1024 * 1024
    assert len(lab.relay._client.outbox) == handed  # type: ignore[union-attr]
    client.h2.increment_flow_control_window(2**30, 1)
    client.h2.increment_flow_control_window(2**30)
    client.flush()
    assert len(client.seen(1).body) == handed, "the control: it was all there"
    assert lab.relay.reads(wire)


@pytest.mark.parametrize("alpn", ["http/1.1", "h2"])
def test_s74_a_hundred_windows_that_never_open_hold_it_too(alpn: str) -> None:
    lab = Lab(protocol="h2")
    client = never_reads(lab)
    streams = [client.ask() for _ in range(100)]
    if alpn == "h2":
        fill_by_http2(Peer(lab, wire=lab.opens("h2")), streams)
    else:
        fill_by_http1(lab)
    held = len(lab.relay._client.outbox)  # type: ignore[union-attr]
    assert held <= TOTAL_HIGH_BYTES + 100 * 65_536 + 8 * 1024 * 1024
    assert not any(lab.relay.reads(wire) for wire in lab.standing) or alpn == "h2"
    lab.waits(1100, steps=11)
    assert held >= len(lab.relay._client.outbox)  # type: ignore[union-attr]
    assert len(lab.desk.records) == 100, "and none of them stays for ever"


def fill_by_http2(server: Peer, streams: list[int]) -> None:
    """Send on each stream whatever its window takes."""
    for stream in streams:
        server.h2.send_headers(stream, [(":status", "200")])
    for stream in streams * 100:
        if server.h2.local_flow_control_window(stream) >= 16_384:
            server.say(stream, b"x" * 16_384)


def fill_by_http1(lab: Lab) -> None:
    """Send on each connection as long as it is read."""
    while lab.opening:
        lab.opens("http/1.1")
    for wire in lab.standing:
        lab.answers(head("Content-Length: 100000000"), wire=wire)
    for wire in lab.standing * 100:
        if lab.relay.reads(wire):
            lab.answers(b"x" * 65_536, wire=wire)


def test_an_upload_that_nobody_takes_is_not_acknowledged() -> None:
    lab, client = h2_lab()
    stream = client.ask("/v1/notes", method="POST", ends=False)
    wire = lab.opens("h2")
    Peer(lab, wire=wire, reads=False)
    sent = 0
    while client.h2.local_flow_control_window(stream) >= 16_384 and sent < 1 << 26:
        client.say(stream, b"x" * 16_384)
        sent += 16_384
    assert sent < 4 * 1024 * 1024
    assert len(lab.sent[wire]) < 2 * 65_535


def test_a_client_that_never_reads_its_wire_cannot_make_us_answer_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Frames on a stream that is over are answered one by one; the bound counts what goes unread."""
    monkeypatch.setattr("egress.relay.http2_limits.MAX_UNREAD_BYTES", 100_000)
    lab, client = h2_lab()
    client.ask("/v1/notes", method="POST", ends=False)
    client.reset(1)
    lab.blocks()
    sent = 0
    while not lab.closed() and sent < 1 << 20:
        client.send(frame(0, 0, 1) * 100)
        sent += 900
    assert lab.closed()
    assert len(lab.sent[CLIENT_WIRE]) < 110_000


def test_a_client_that_reads_its_wire_may_be_answered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr("egress.relay.http2_limits.MAX_UNREAD_BYTES", 1000)
    lab, client = h2_lab()
    client.ask("/v1/notes", method="POST", ends=False)
    client.reset(1)
    for _ in range(100):
        lab.blocks()
        client.send(frame(0, 0, 1) * 50)
        lab.drains()
        client.send(frame(0, 0, 1))
    assert not lab.closed()


def test_a_table_of_any_size_is_not_remembered() -> None:
    """A client may allow a header table of four gigabytes, and the upstream fill it."""
    lab = Lab(protocol="h2")
    client = Peer(lab, settings={SettingCodes.HEADER_TABLE_SIZE: 2**32 - 1})
    client.ask()
    server = Peer(lab, wire=lab.opens("h2"), settings={SettingCodes.HEADER_TABLE_SIZE: 2**32 - 1})
    for number in range(20):
        if number:
            client.ask()
        server.flush()
        server.reply(server.newest, (f"x-{number}", "y" * 1000), body=None)
        client.flush()
        assert client.seen(client.newest).header(f"x-{number}")
    assert lab.relay._client._h2.encoder.header_table._current_size <= 4096  # type: ignore[union-attr]
    assert lab.relay.upstreams._shared._h2.encoder.header_table._current_size <= 4096  # type: ignore[union-attr]


def test_windows_come_back_from_streams_that_are_given_up() -> None:
    """A client that gives up on held responses must not starve those that follow on the connection."""
    lab = Lab(protocol="h2")
    client = Peer(lab, reads=False)
    server: Peer | None = None
    for _ in range(30):
        stream = client.ask()
        if server is None:
            server = Peer(lab, wire=lab.opens("h2"))
        server.flush()
        number = server.newest
        server.h2.send_headers(number, [(":status", "200")])
        for _ in range(60):
            if server.h2.local_flow_control_window(number) >= 16_384:
                server.say(number, b"x" * 16_384)
        client.reset(stream)
        server.flush()
    assert server is not None
    assert server.h2.outbound_flow_control_window > 4 * 1024 * 1024


def test_windows_come_back_from_uploads_that_are_given_up() -> None:
    lab, client = h2_lab()
    for _ in range(30):
        stream = client.ask("/v1/notes", method="POST", ends=False)
        for _ in range(60):
            if client.h2.local_flow_control_window(stream) >= 16_384:
                client.say(stream, b"x" * 16_384)
        client.reset(stream)
    assert client.h2.outbound_flow_control_window > CLIENT_WINDOW_BYTES // 2
    assert len(lab.desk.records) == 30


# Floods ------------------------------------------------------------------------------------------------

FLOODS = {
    "settings": (frame(4, 0, 0), 30),
    "settings acks": (frame(4, 1, 0), 30),
    "pings": (frame(6, 0, 0, b"12345678"), 100),
    "ping acks": (frame(6, 1, 0, b"12345678"), 100),
    "priorities": (frame(2, 0, 1, b"\0\0\0\x03\x10"), 600),
    "empty data": (frame(0, 0, 1), 300),
    "unknown frames": (frame(77, 0, 0, b"x"), 200),
    "windows": (frame(8, 0, 0, b"\0\0\0\1"), 5_000),
}


@pytest.mark.parametrize(("data", "count"), FLOODS.values(), ids=FLOODS)
def test_s74_a_flood_is_ended(data: bytes, count: int) -> None:
    lab, client = h2_lab()
    client.ask("/v1/notes", method="POST", ends=False)
    for _ in range(10):
        client.send(data * (count // 10))
    client.take()
    assert client.gone == CALM
    assert lab.closed()
    assert lab.codes == ["client.left"]
    lab.check()


@pytest.mark.parametrize(("data", "count"), FLOODS.values(), ids=FLOODS)
def test_as_much_over_an_hour_is_no_flood(data: bytes, count: int) -> None:
    """The control."""
    lab, client = h2_lab()
    client.ask("/v1/notes", method="POST", ends=False)
    lab.opens()
    for _ in range(10):
        client.send(data * (count // 20))
        lab.waits(1)
    client.take()
    assert not lab.closed()
    client.end(1)
    lab.answers(response())
    client.flush()
    assert client.seen(1).body == b"hello"


@pytest.mark.parametrize(("data", "count"), FLOODS.values(), ids=FLOODS)
def test_a_flood_of_the_upstream_ends_what_it_carries(data: bytes, count: int) -> None:
    lab, client, server, stream = both_h2()
    server.h2.send_headers(stream, [(":status", "200")])
    server.flush()
    for _ in range(10):
        server.send(data * (count // 10))
    client.flush()
    assert client.seen(1).reset is not None
    assert lab.codes == ["upstream.malformed"]
    assert not lab.closed(), "which is not the client's fault"
    lab.check()


def test_s74_rapid_resets_are_ended_and_leave_nothing_behind() -> None:
    lab, client = h2_lab()
    for _ in range(300):
        if lab.closed():
            break
        client.reset(client.ask())
    assert client.gone == CALM
    assert len(lab.desk.records) == len(lab.desk.begun) <= 202
    assert not lab.opening, "no connection is opened for whoever has left"
    lab.check()


def test_rapid_resets_in_one_read_are_not_acted_on() -> None:
    lab, client = h2_lab()
    for _ in range(300):
        stream = client.h2.get_next_available_stream_id()
        client.h2.send_headers(stream, GOOD, end_stream=True)
        client.h2.reset_stream(stream)
    client.flush()
    assert client.gone == CALM
    assert lab.desk.begun == []
    assert not lab.opening


def test_a_request_that_is_taken_back_in_the_same_read_is_not_begun() -> None:
    """Else each pair of frames would cost us a request, and the peer next to nothing."""
    lab, client = h2_lab()
    for _ in range(50):
        stream = client.h2.get_next_available_stream_id()
        client.h2.send_headers(stream, GOOD, end_stream=True)
        client.h2.reset_stream(stream)
    client.flush()
    assert lab.desk.begun == []
    assert client.gone is None
    # The twin: one that is not taken back.
    client.ask()
    assert len(lab.desk.begun) == 1


def test_a_request_and_its_reset_in_one_read_hurt_nobody_else() -> None:
    lab, client = h2_lab()
    other = client.ask()
    for fields in (GOOD, wrong({":path": "/admin"}), wrong({":protocol": "x"})):
        stream = client.h2.get_next_available_stream_id()
        client.h2.send_headers(stream, fields, end_stream=True)
        client.h2.reset_stream(stream)
    client.flush()
    lab.opens()
    lab.answers(response(), wire=lab.standing[0])
    client.flush()
    assert client.seen(other).body == b"hello"
    assert not lab.closed()
    lab.check()


def test_a_head_in_ever_more_pieces_is_ended() -> None:
    lab, client = h2_lab()
    client.send(frame(1, 1, 1, b"\x82"))
    for _ in range(100):
        client.send(frame(9, 0, 1, b"\x84" * 1000))
    assert lab.closed()
    assert lab.codes == ["request.malformed"]


def test_a_head_that_unpacks_to_megabytes_is_ended() -> None:
    """A field of 4000 bytes is put into the table, and then named by one byte, thousands of times."""
    bomb = b"\x82\x87\x84" + b"\x41\x10" + NAME.encode() + b"\x40\x01a\x7f\xa1\x1e" + b"b" * 4000
    lab, client = h2_lab()
    client.send(frame(1, 5, 1, bomb + b"\xbe" * 10_000))
    assert lab.closed()
    assert lab.codes == ["request.malformed"]
    lab, client = h2_lab()
    client.send(frame(1, 5, 1, bomb + b"\xbe" * 3))
    assert not lab.closed(), "the control: a few are fine"
    assert lab.codes == ["rule.none"]


def test_a_hundred_streams_and_no_more() -> None:
    lab, client = h2_lab()
    for _ in range(100):
        client.ask()
    assert len(lab.desk.begun) == 100
    assert not lab.closed()
    client.h2.remote_settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 1000
    client.h2.remote_settings.acknowledge()
    client.ask()
    assert len(lab.desk.begun) == 100
    assert lab.closed()
    lab.check()


def test_garbage_is_ended() -> None:
    for garbage in (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"\0" * 100):
        lab = Lab(protocol="h2")
        lab.says(garbage)
        assert lab.closed()
        assert lab.codes == ["request.malformed"]


def test_a_connection_that_asks_for_nothing_is_closed() -> None:
    lab, _ = h2_lab()
    lab.waits(122, steps=122)
    assert lab.closed()
    assert lab.codes == []


def test_a_client_that_reads_slowly_gets_all_of_it() -> None:
    """The response is complete, the exchange recorded, and the client takes minutes to fetch it."""
    lab = Lab(protocol="h2")
    client = never_reads(lab)
    client.ask()
    lab.opens()
    lab.answers(response(b"x" * 200_000))
    assert lab.codes == ["rule.allowed"]
    for _ in range(20):
        client.h2.increment_flow_control_window(10_000, 1)
        client.h2.increment_flow_control_window(10_000)
        client.flush()
        lab.waits(60, steps=6)
    client.take()
    assert len(client.seen(1).body) == 200_000
    assert client.seen(1).is_whole


# Many streams --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpn", ["http/1.1", "h2"])
def test_s74_fifty_streams_of_events_all_move(alpn: str) -> None:
    """S-74: over one connection, each event arrives when it is sent."""
    lab, client = h2_lab()
    streams = [client.ask(f"/v1/events/{number}") for number in range(50)]
    say = events_over_http2(lab) if alpn == "h2" else events_over_http1(lab)
    whole = b""
    for turn in range(20):
        event = b"data: %d\n\n" % turn
        whole += event
        say(event)
        client.flush()
        assert {client.seen(stream).body for stream in streams} == {whole}
    assert lab.codes == []
    assert len(lab.standing) == (1 if alpn == "h2" else 50)


def events_over_http2(lab: Lab) -> Callable[[bytes], None]:
    """An upstream that sends the same event on every stream."""
    server = Peer(lab, wire=lab.opens("h2"))
    server.flush()
    for stream in server.streams:
        server.h2.send_headers(stream, [(":status", "200"), ("content-type", "text/event-stream")])

    def say(event: bytes) -> None:
        for stream in server.streams:
            server.say(stream, event)

    return say


def events_over_http1(lab: Lab) -> Callable[[bytes], None]:
    """The same over as many connections."""
    while lab.opening:
        lab.opens("http/1.1")
    for wire in lab.standing:
        lab.answers(head("content-type: text/event-stream", "transfer-encoding: chunked"), wire=wire)

    def say(event: bytes) -> None:
        for wire in lab.standing:
            lab.answers(b"%x\r\n%b\r\n" % (len(event), event), wire=wire)

    return say


def test_a_big_response_does_not_keep_a_small_one_waiting() -> None:
    lab = Lab(protocol="h2")
    client = Peer(lab, settings={SettingCodes.INITIAL_WINDOW_SIZE: 2**30}, reads=False)
    client.h2.increment_flow_control_window(2**30)
    client.flush()
    big, small = client.ask("/v1/big"), client.ask("/v1/small")
    server = Peer(lab, wire=lab.opens("h2"))
    server.flush()
    lab.blocks()
    server.h2.send_headers(1, [(":status", "200")])
    server.h2.send_headers(3, [(":status", "200")])
    for _ in range(20):
        server.say(1, b"x" * 16_000)
    server.say(3, b"small", ends=True)
    before = len(lab.sent[CLIENT_WIRE])
    lab.drains()
    said = bytes(lab.sent[CLIENT_WIRE][before:])
    assert said.index(b"small") < 2 * 16_500
    client.take()
    assert client.seen(small).is_whole
    assert len(client.seen(big).body) == 320_000


# Upstreams that leave ------------------------------------------------------------------------------------


def test_an_upstream_that_says_goodbye_finishes_what_it_has() -> None:
    """GOAWAY without error: the old connection still moves while a new one takes what follows."""
    lab, client, server, stream = both_h2()
    server.h2.send_headers(stream, [(":status", "200")])
    server.flush()
    server.send(frame(7, 0, 0, struct.pack("!II", stream, 0)))
    other = client.ask("/v1/other")
    assert len(lab.standing) == 1
    second = Peer(lab, wire=lab.opens("h2"))
    second.flush()
    for _ in range(200):
        server.say(stream, b"x" * 16_000)
        client.flush()
    server.end(stream)
    client.flush()
    assert len(client.seen(1).body) == 3_200_000, "its windows were given back after the goodbye"
    assert client.seen(1).is_whole
    second.reply(1)
    client.flush()
    assert client.seen(other).body == b"hello"
    assert server.wire in lab.ended, "and closes once it is done"
    assert second.wire not in lab.ended
    lab.check()


def test_an_upload_to_an_upstream_that_said_goodbye_goes_on() -> None:
    lab, client = h2_lab()
    stream = client.ask("/v1/notes", method="POST", ends=False)
    server = Peer(lab, wire=lab.opens("h2"))
    server.send(frame(7, 0, 0, struct.pack("!II", 1, 0)))
    client.ask("/v1/other")
    lab.opens("h2")
    for _ in range(100):
        client.say(stream, b"x" * 16_000)
        server.flush()
    client.end(stream)
    server.flush()
    assert len(server.seen(1).body) == 1_600_000
    assert server.seen(1).is_whole


def test_what_the_upstream_has_not_looked_at_is_sent_again() -> None:
    lab, client = h2_lab()
    one, two, three = client.ask(), client.ask(), client.ask("/v1/notes", method="POST", body=b"x")
    server = Peer(lab, wire=lab.opens("h2"))
    server.flush()
    server.send(frame(7, 0, 0, struct.pack("!II", 1, 0)))
    server.reply(1)
    again = Peer(lab, wire=lab.opens("h2"))
    again.flush()
    assert len(again.streams) == 1, "one that may be done twice, and not the POST"
    again.reply(1, body=b"again")
    client.flush()
    assert [client.seen(stream).body for stream in (one, two)] == [b"hello", b"again"]
    assert client.seen(three).code == "upstream.closed"
    lab.check()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_refused_stream_is_sent_again_once(method: str) -> None:
    lab, client = h2_lab()
    stream = client.ask(method=method)
    server = Peer(lab, wire=lab.opens("h2"))
    server.flush()
    server.reset(1, ErrorCodes.REFUSED_STREAM)
    if method == "GET":
        server.flush()
        assert server.newest == 3
        server.reset(3, ErrorCodes.REFUSED_STREAM)
        server.flush()
    assert server.newest in {1, 3}
    client.flush()
    assert client.seen(stream).code == "upstream.closed"
    assert lab.codes == ["upstream.closed"]
    lab.check()


def test_a_stream_that_is_reset_in_the_middle_is_cut() -> None:
    lab, client, server, stream = both_h2()
    server.reply(stream, body=b"half", ends=False)
    server.reset(stream, ErrorCodes.INTERNAL_ERROR)
    client.flush()
    assert client.seen(1).body == b"half"
    assert client.seen(1).reset is not None
    assert lab.codes == ["upstream.closed"]


def test_a_shared_connection_that_had_died_costs_one_more_try() -> None:
    lab, client, server, stream = both_h2()
    server.reply(stream)
    client.flush()
    second = client.ask()
    lab.hangs_up(server.wire)
    again = Peer(lab, wire=lab.opens("h2"))
    again.flush()
    again.reply(1, body=b"again")
    client.flush()
    assert client.seen(second).body == b"again"
    third = client.ask(method="POST")
    lab.hangs_up(again.wire)
    client.flush()
    assert client.seen(third).code == "upstream.closed"
    assert not lab.opening


def test_an_upstream_that_dies_ends_all_its_streams_and_only_them() -> None:
    lab, client = h2_lab()
    streams = [client.ask() for _ in range(5)]
    server = Peer(lab, wire=lab.opens("h2"))
    server.flush()
    server.send(frame(7, 0, 0, struct.pack("!II", 0, 2)))
    client.flush()
    assert {client.seen(stream).code for stream in streams} == {"upstream.closed"}
    assert lab.codes == ["upstream.closed"] * 5
    assert not lab.closed()
    lab.check()


def test_the_number_of_streams_is_the_upstreams_to_say() -> None:
    lab, client = h2_lab()
    client.ask()
    server = Peer(lab, wire=lab.opens("h2"), settings={SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    for _ in range(4):
        client.ask()
    for number in (1, 3, 5, 7, 9):
        server.flush()
        assert server.newest == number
        server.reply(number)
    client.flush()
    assert lab.codes == ["rule.allowed"] * 5


def test_an_early_answer_leaves_the_shared_connection_in_order() -> None:
    """The upstream answers before it has read the body; its stream is ended, and the next ones count."""
    lab, client = h2_lab()
    stream = client.ask("/v1/notes", method="POST", ends=False)
    server = Peer(lab, wire=lab.opens("h2"), settings={SettingCodes.MAX_CONCURRENT_STREAMS: 1}, reads=False)
    for _ in range(10):
        client.say(stream, b"x" * 16_000)
    client.end(stream)
    server.reply(1, body=b"early")
    client.flush()
    assert client.seen(stream).body == b"early"
    server.flush()
    other = client.ask()
    server.flush()
    assert not lab.closed()
    server.reply(3)
    client.flush()
    assert client.seen(other).body == b"hello"
    lab.check()


def test_an_upstream_that_overruns_its_window_is_ended() -> None:
    lab, _, server, stream = both_h2()
    server.h2.send_headers(stream, [(":status", "200")])
    server.flush()
    lab.blocks()
    for _ in range(200):
        if server.wire not in lab.ended:
            server.send(frame(0, 0, stream, b"x" * 16_384))
    assert server.wire in lab.ended
    assert lab.codes == ["upstream.malformed"]


# Clients that leave ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpn", ["http/1.1", "h2"])
@pytest.mark.parametrize("stage", ["fetching", "connecting", "waiting", "uploading", "reading"])
def test_a_stream_that_is_given_up_at_any_stage_leaves_one_record(stage: str, alpn: str) -> None:
    lab, client = h2_lab(at_hand=stage != "fetching")
    other = client.ask() if stage != "fetching" else 0
    stream = client.ask("/v1/notes", method="POST", ends=stage != "uploading")
    server: Peer | None = None
    if stage in {"waiting", "uploading", "reading"}:
        if alpn == "h2":
            server = Peer(lab, wire=lab.opens("h2"))
        else:
            while lab.opening:
                lab.opens()
    if stage == "reading":
        if server is not None:
            server.flush()
            server.reply(3, body=b"half", ends=False)
        else:
            lab.answers(head("content-length: 10") + b"half")
    client.reset(stream)
    assert lab.codes == ["client.left"]
    if stage == "fetching":
        lab.fetches()
        assert not lab.opening
        return
    if server is not None:
        server.flush()
        server.reply(1)
        assert server.seen(3).reset is not None
    else:
        if lab.opening:
            lab.opens()
        lab.answers(response(), wire=lab.standing[0])
        assert len(lab.standing) == 1
    client.flush()
    assert client.seen(other).body == b"hello", "and the other one is answered"
    assert len(lab.desk.records) == 2
    lab.check()


def test_the_connection_that_tells_what_the_upstream_speaks_outlives_who_asked_for_it() -> None:
    lab, client = h2_lab()
    first, second = client.ask(), client.ask()
    client.reset(first)
    server = Peer(lab, wire=lab.opens("h2"))
    server.flush()
    server.reply(1)
    client.flush()
    assert client.seen(second).body == b"hello"
    assert not lab.opening


def test_a_client_that_says_goodbye_still_gets_its_answers() -> None:
    lab, client, server, stream = both_h2()
    client.send(frame(7, 0, 0, struct.pack("!II", 0, 0)))
    assert not lab.closed()
    server.reply(stream)
    client.flush()
    assert client.seen(1).body == b"hello"
    assert lab.closed()
    assert lab.codes == ["rule.allowed"]


def test_a_client_that_says_goodbye_in_anger_has_left() -> None:
    lab, client, _, _ = both_h2()
    client.send(frame(7, 0, 0, struct.pack("!II", 0, 2)))
    assert lab.closed()
    assert lab.codes == ["client.left"]


# Limits, reloads, drains ------------------------------------------------------------------------------------


def test_limits_of_bodies_hold_in_both_directions() -> None:
    lab, client = h2_lab(LIMITED)
    stream = client.ask("/v1/notes", method="POST", ends=False)
    server = Peer(lab, wire=lab.opens("h2"))
    client.say(stream, b"x" * 101)
    assert client.seen(stream).code == "limit.request_body"
    other = client.ask()
    server.flush()
    server.reply(server.newest, body=b"y" * 1001)
    client.flush()
    assert client.seen(other).reset is not None
    assert lab.codes == ["limit.request_body", "limit.response_body"]
    lab.check()


def test_expectations_are_met_once_the_request_is_on_its_way() -> None:
    lab, client = h2_lab()
    stream = client.ask("/v1/notes", ("expect", "100-continue"), method="POST", ends=False)
    assert client.seen(stream).interim == []
    server = Peer(lab, wire=lab.opens("h2"))
    client.flush()
    assert client.seen(stream).interim == ["100"]
    client.say(stream, b"hello", ends=True)
    server.flush()
    assert server.seen(1).body == b"hello"
    assert server.seen(1).header("expect") == ""
    denied = client.ask("/admin", ("expect", "100-continue"), method="POST", ends=False)
    assert (client.seen(denied).interim, client.seen(denied).status) == ([], 403)


def test_a_denied_upload_is_answered_and_told_to_stop() -> None:
    _, client = h2_lab()
    stream = client.ask("/admin", method="POST", ends=False)
    assert client.seen(stream).status == 403
    assert client.seen(stream).is_whole
    assert client.seen(stream).reset == int(ErrorCodes.NO_ERROR)


def test_what_is_not_allowed_any_more_is_ended() -> None:
    lab, client, server, stream = both_h2()
    server.reply(stream, body=b"half", ends=False)
    other = client.ask()
    lab.do(lab.relay.recheck(policy_of(NOTHING), 0))
    client.take()
    server.take()
    assert client.seen(1).reset is not None
    assert client.seen(other).code == "access.withdrawn"
    assert server.seen(stream).reset is not None
    assert lab.codes == ["access.withdrawn"] * 2


def test_a_drain_answers_what_is_under_way() -> None:
    lab, client, server, stream = both_h2()
    lab.do(lab.relay.drain())
    refused = client.ask()
    assert client.seen(refused).reset == int(ErrorCodes.REFUSED_STREAM)
    lab.blocks()
    server.reply(stream)
    assert not lab.closed(), "its end is still to be written"
    lab.drains()
    client.take()
    assert client.seen(1).is_whole
    assert lab.closed()


def test_what_is_shut_is_told_why() -> None:
    lab, client, _, _ = both_h2()
    lab.shuts("proxy.stopping")
    client.take()
    assert client.seen(1).code == "proxy.stopping"
    assert lab.closed()
    assert lab.codes == ["proxy.stopping"]


def test_stages_that_take_too_long_are_ended() -> None:
    lab, client = h2_lab(limits=RelayLimits(request_body=10, response_head=20))
    stream = client.ask("/v1/notes", method="POST", ends=False)
    other = client.ask()
    Peer(lab, wire=lab.opens("h2"))
    lab.waits(12, steps=12)
    client.take()
    assert client.seen(stream).code == "request.timeout"
    lab.waits(12, steps=12)
    client.take()
    assert client.seen(other).code == "upstream.timeout"
