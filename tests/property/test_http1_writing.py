"""What is written reads back unchanged, and what must not be written is not, whatever is handed in."""

from __future__ import annotations

import http.client
import io
from typing import cast

from hypothesis import example, given, settings
from hypothesis import strategies as st

from egress.errors import WireError
from egress.http1 import (
    CHUNKED,
    NO_BODY,
    UNTIL_CLOSE,
    Body,
    Data,
    End,
    Framing,
    RequestHead,
    RequestReader,
    RequestWriter,
    ResponseHead,
    ResponseReader,
    ResponseWriter,
    encode_request_head,
    encode_response_head,
    strip_hop_by_hop,
)
from egress.types import Headers
from tests.tiers import examples

ASK = RequestHead("GET", "/", "origin", (("host", "a"),), host="a")

names = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_!~", min_size=1, max_size=12).map("x-".__add__)
values = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=20).map(
    lambda v: v.strip(" \t")
)
fields = st.lists(st.tuples(names, values), max_size=6).map(tuple)
methods = st.sampled_from(["GET", "POST", "DELETE", "M-SEARCH", "get"])
targets = st.text("/abc?%=&.;~", max_size=30).map("/".__add__)
pieces = st.lists(st.binary(max_size=40), max_size=5)
bodies = st.sampled_from(["none", "length", "chunked"])
statuses = st.integers(200, 599).filter(lambda s: s not in (204, 304))
reasons = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=12).map(
    lambda v: v.strip(" \t")
)
# Anything, with what is dangerous in it more often than chance would have it.
wild = st.text(st.one_of(st.sampled_from("\r\n\0 \t:/ah"), st.characters()), max_size=12)


def framed(body: str, pieces: list[bytes]) -> Framing:
    return {"none": NO_BODY, "length": Framing.sized(len(b"".join(pieces))), "chunked": CHUNKED}[body]


def body_of(events: list[object]) -> bytes:
    return b"".join(event.data for event in events if isinstance(event, Data))


@given(methods, targets, fields, bodies, pieces, fields, st.booleans(), st.booleans())
def test_a_request_reads_back_as_it_was_written(
    method: str,
    target: str,
    headers: Headers,
    body: str,
    pieces: list[bytes],
    trailers: Headers,
    close: bool,
    switch: bool,
) -> None:
    headers = (("host", "a.example:8080"), *headers)
    framing = framed(body, pieces)
    upgrade = ("websocket",) if switch else ()
    expect = framing is not NO_BODY
    writer = RequestWriter()
    wire = writer.head(method, target, headers, framing, close=close, upgrade=upgrade, expect_continue=expect)
    sent = pieces if framing is not NO_BODY else []
    wire += b"".join(map(writer.data, sent)) + writer.end(trailers)
    head, *rest = RequestReader().feed(wire)
    assert isinstance(head, RequestHead)
    assert (head.method, head.target, head.framing) == (method, target, framing)
    assert (head.keep_alive, head.upgrade, head.expect_continue) == (not close, upgrade, expect)
    stated = strip_hop_by_hop(head.headers)
    assert stated[: len(headers)] == headers
    assert stated[len(headers) :] in ((), (("content-length", str(framing.length)),))
    assert body_of([*rest]) == b"".join(sent)
    assert rest[-1] == End(trailers if framing is CHUNKED else ())


@given(statuses, reasons, fields, st.sampled_from(["length", "chunked", "close"]), pieces, fields)
def test_a_response_reads_back_as_it_was_written(
    status: int, reason: str, headers: Headers, body: str, pieces: list[bytes], trailers: Headers
) -> None:
    framing = UNTIL_CLOSE if body == "close" else framed(body, pieces)
    writer = ResponseWriter()
    writer.answer(ASK)
    wire = (
        writer.head(status, reason, headers, framing)
        + b"".join(map(writer.data, pieces))
        + writer.end(trailers)
    )
    reader = ResponseReader()
    reader.expect("GET")
    head, *rest = reader.feed(wire) + reader.eof()
    assert isinstance(head, ResponseHead)
    assert (head.status, head.reason, head.framing) == (status, reason, framing)
    assert strip_hop_by_hop(head.headers)[: len(headers)] == headers
    assert head.keep_alive is (framing is not UNTIL_CLOSE)
    assert body_of([*rest]) == b"".join(pieces)
    assert rest[-1] == End(trailers if framing is CHUNKED else ())


class _Wire(io.BytesIO):
    """What http.client needs of a socket."""

    def makefile(self, _mode: str) -> io.BytesIO:
        return self


@given(statuses, fields, st.sampled_from(["length", "chunked", "close"]), pieces)
def test_the_standard_library_reads_our_responses_alike(
    status: int, headers: Headers, body: str, pieces: list[bytes]
) -> None:
    framing = UNTIL_CLOSE if body == "close" else framed(body, pieces)
    writer = ResponseWriter()
    writer.answer(ASK)
    wire = writer.head(status, "", headers, framing) + b"".join(map(writer.data, pieces)) + writer.end()
    # http.client takes a socket; all it does with it is makefile().
    response = http.client.HTTPResponse(cast("http.client.socket.socket", _Wire(wire)), method="GET")  # type: ignore[name-defined]
    response.begin()
    assert (response.status, response.read()) == (status, b"".join(pieces))
    response.close()


@settings(max_examples=examples(300))
@given(wild, wild, st.lists(st.tuples(wild, wild), max_size=3).map(tuple), st.booleans())
@example("GET", "/", (("x", "a\r\ny: b"),), True)
@example("GET", "/ HTTP/1.1\r\nx:", (), True)
@example("GET", "/", (("host", "b"),), True)
@example("GET", "/", (("x: y\r\nz", ""),), True)
def test_a_request_head_is_written_whole_or_not_at_all(
    method: str, target: str, headers: Headers, plain: bool
) -> None:
    if plain:
        method, target = "GET", "/"
    headers = (("host", "a"), *headers)
    try:
        wire = encode_request_head(method, target, headers)
    except WireError:
        return
    head, end = RequestReader().feed(wire)
    assert isinstance(head, RequestHead)
    assert (head.method, head.target, head.headers, end) == (method, target, headers, End())


@settings(max_examples=examples(300))
@given(st.integers(-1, 700), wild, st.lists(st.tuples(wild, wild), max_size=3).map(tuple), st.booleans())
@example(200, "OK\r\nx: y", (), False)
@example(200, "OK", (("set-cookie", "a\nb"),), False)
def test_a_response_head_is_written_whole_or_not_at_all(
    status: int, reason: str, headers: Headers, plain: bool
) -> None:
    if plain:
        status, reason = 200, "OK"
    try:
        wire = encode_response_head(status, reason, headers, Framing.sized(0), method="GET")
    except WireError:
        return
    reader = ResponseReader()
    reader.expect("GET")
    head, end = reader.feed(wire)
    assert isinstance(head, ResponseHead)
    assert head.headers[: len(headers)] == headers
    assert (head.status, head.reason, head.framing.body, end) == (status, reason, Body.LENGTH, End())
