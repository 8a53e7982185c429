"""The upstream's side of HTTP/2; what a hostile one does is in tests/attack/test_http2.py."""

from __future__ import annotations

import pytest
from h2.settings import SettingCodes

from egress.relay.http2_upstream import Http2Upstream, _fields_of, _status_of
from egress.types import Head
from tests.unit.relay.wires import NAME, VALUE, Lab, Peer, both_h2, h2_lab

HEAD = Head("GET", "https", NAME, 443, "/v1/user", (("host", NAME), ("x", "y")))


def test_a_head_in_the_spelling_of_http2() -> None:
    assert _fields_of(HEAD) == (
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", NAME),
        (":path", "/v1/user"),
        ("x", "y"),
    )


def test_grpc_gets_back_the_field_that_it_insists_on() -> None:
    lab, client = h2_lab()
    client.ask("/v1/rpc", ("content-type", "application/grpc"), ("te", "trailers"), method="POST", body=b"\0")
    client.ask("/v1/rpc", ("te", "trailers"))
    server = Peer(lab, wire=lab.opens("h2"))
    server.flush()
    assert [server.seen(stream).header("te") for stream in (1, 3)] == ["trailers", ""]


@pytest.mark.parametrize(
    ("status", "number"),
    [("200", 200), ("099", 99), ("20", 0), ("2000", 0), ("+20", 0), ("\xb2\xb2\xb2", 0), ("", 0)],
)
def test_a_status_is_three_digits(status: str, number: int) -> None:
    assert _status_of([(":status", status), ("x", "y")]) == (number, (("x", "y"),))


def test_an_exchange_over_http2_from_end_to_end() -> None:
    lab, client, server, stream = both_h2()
    assert server.seen(stream).header("authorization") == f"Bearer {VALUE.decode()}"
    assert server.seen(stream).header(":authority") == NAME
    assert server.seen(stream).header("host") == ""
    server.reply(stream, ("x-a", "b"), body=b"hello", ends=False)
    server.end(stream, [("x-check", "1")])
    client.flush()
    seen = client.seen(1)
    assert (seen.status, seen.body, seen.trailers, seen.is_whole) == (200, b"hello", [("x-check", "1")], True)
    lab.check()


def test_a_connection_is_kept_while_it_is_used_and_a_while_longer() -> None:
    lab, client, server, stream = both_h2()
    lab.waits(100, steps=10)
    assert server.wire not in lab.ended
    server.reply(stream)
    lab.waits(29, steps=29)
    assert server.wire not in lab.ended
    lab.waits(3, steps=3)
    assert lab.ended[server.wire] == "closed"
    client.ask()
    assert lab.opening


def test_it_takes_no_more_once_it_leaves() -> None:
    lab, _, server, _ = both_h2()
    upstream = lab.relay.upstreams.get(server.wire)
    assert isinstance(upstream, Http2Upstream)
    assert upstream.is_usable
    server.send(b"\0\0\x08\x07\0\0\0\0\0" + b"\0\0\0\1" + b"\0\0\0\0")
    assert not upstream.is_usable


def test_a_response_nobody_takes_is_not_acknowledged() -> None:
    lab, client = h2_lab(reads=False)
    client.ask()
    server = Peer(lab, wire=lab.opens("h2"))
    lab.blocks()
    server.h2.send_headers(1, [(":status", "200")])
    sent = 0
    while server.h2.local_flow_control_window(1) >= 16_384:
        server.say(1, b"x" * 16_384)
        sent += 16_384
    assert sent < 2 * 1024 * 1024
    assert lab.relay.reads(server.wire), "the other streams of the connection go on"


def crowded() -> tuple[Lab, Peer, Peer]:
    """One request under way at an upstream that takes no second, and three that wait."""
    lab, client = h2_lab()
    client.ask()
    server = Peer(lab, wire=lab.opens("h2"), settings={SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    for _ in range(3):
        client.ask()
    server.flush()
    assert sorted(server.streams) == [1]
    return lab, client, server


def test_those_that_wait_move_on_when_it_leaves() -> None:
    lab, client, server = crowded()
    client.reset(5)
    server.send(b"\0\0\x08\x07\0\0\0\0\0" + b"\0\0\0\1" + b"\0\0\0\0")
    other = Peer(lab, wire=lab.opens("h2"))
    other.flush()
    assert sorted(other.streams) == [1, 3], "all but the one whose client has left"
    server.reply(1)
    assert lab.ended[server.wire] == "closed"
    lab.check()


def test_those_that_wait_end_with_it() -> None:
    lab, client, server = crowded()
    lab.hangs_up(server.wire)
    client.flush()
    assert [client.seen(stream).code for stream in (1, 3, 5, 7)] == ["upstream.closed"] * 4
    lab.check()


def test_whoever_has_left_does_not_wait() -> None:
    lab, client, server = crowded()
    client.reset(3)
    lab.waits(1)
    client.reset(5)
    server.reply(1)
    server.flush()
    assert sorted(server.streams) == [1, 3]
    server.reply(3)
    client.flush()
    assert client.seen(7).is_whole
    lab.check()
