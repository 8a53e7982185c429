"""First messages, in any pieces: what is read, what stays, and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import cast

import pytest

from egress.http1 import RequestHead
from egress.proxy.ingress.client_stream import ClientStream
from egress.proxy.ingress.first_message import begins_http, read_first, read_head, read_hello
from egress.proxy.ingress.pending_connection import IngressRefusal, PendingConnection
from egress.tls.client_hello import ClientHello
from egress.types import Identity
from tests.unit.proxy.hellos import real
from tests.unit.proxy.ingress_fixture import QUICK, IngressFixture, connect, get


def visit(*pieces: bytes, ends: bool = True) -> PendingConnection:
    """A client that has sent these pieces."""
    reader = asyncio.StreamReader()
    client = ClientStream(reader, cast("asyncio.StreamWriter", None))
    for piece in pieces:
        reader.feed_data(piece)
    if ends:
        reader.feed_eof()
    step = IngressFixture()
    listener = step.listener()
    step.close()
    return PendingConnection("c1", listener, Identity("box"), client, QUICK, 0.0)


def test_only_what_can_be_a_method_begins_a_request() -> None:
    assert all(begins_http(byte) for byte in b"GPCOgz!")
    assert not any(begins_http(byte) for byte in b"\x00\x04\x05\x16\x80\r\n \t(/:\x7f\xff")


async def test_the_first_byte_stays() -> None:
    one = visit(b"GET")
    assert await read_first(one) == ord("G")
    assert one.client.take_unread() == b"GET"


async def test_a_client_that_leaves_at_once_is_nobodys_fault() -> None:
    assert await read_first(visit()) is None


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_head_is_read_from_any_pieces_and_stays(size: int) -> None:
    data = get("/x", "api.example.com") + b"the next bytes"
    one = visit(*[data[at : at + size] for at in range(0, len(data), size)])
    head = await read_head(one)
    assert isinstance(head, RequestHead)
    assert head.host == "api.example.com"
    assert one.head == head
    assert one.speaks == "http"
    assert one.client.take_unread() == data


async def test_the_head_of_a_connect_is_dropped_and_nothing_else() -> None:
    one = visit(connect("api.example.com:443") + b"behind")
    assert isinstance(await read_head(one), RequestHead)
    assert one.client.take_unread() == b"behind"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a.example\r\n", 400),
        (b"GET / HTTP/3.0\r\n\r\n", 505),
        (b"GET /" + b"a" * 70_000, 414),
        (b"GET / HTTP/1.1\r\n" + b"A: " + b"a" * 70_000, 431),
    ],
)
async def test_a_bad_head_has_the_status_of_its_fault(data: bytes, status: int) -> None:
    assert await read_head(visit(data)) == IngressRefusal("request.malformed", status=status)


@pytest.mark.parametrize("size", [1, 100, 10_000])
async def test_a_hello_is_read_from_any_pieces_and_stays(size: int) -> None:
    data = real("api.example.com") + b"early data"
    one = visit(*[data[at : at + size] for at in range(0, len(data), size)])
    hello = await read_hello(one)
    assert isinstance(hello, ClientHello)
    assert hello.sni == "api.example.com"
    assert one.speaks == "tls"
    assert (one.client.take_unread() + await one.client.reader.read()) == data


async def test_a_hello_that_is_none_or_ends_early_is_refused() -> None:
    assert await read_hello(visit(b"\x16\x03\x01\x00\x00")) == IngressRefusal("protocol.refused")
    assert await read_hello(visit(real("api.example.com")[:-1])) == IngressRefusal("protocol.refused")


async def test_time_runs_out_for_each_kind_of_message() -> None:
    for read in (read_first, read_head, read_hello):
        one = visit(ends=False)
        one.bounds = replace(QUICK, first_byte=0.01, head_time=0.01, hello_time=0.01)
        assert await read(one) == IngressRefusal("request.timeout")
