"""Request smuggling and response splitting: S-23 (CL.TE, TE.CL) and every neighbour of it.

Two defences, tested one by one. What could be read in two ways is refused; and what is taken is
written anew, so that a second parser, h11, finds in our bytes the one message we saw.
"""

from __future__ import annotations

import h11
import pytest

from egress.errors import WireError
from egress.http1 import (
    Data,
    End,
    RequestHead,
    RequestReader,
    RequestWriter,
    ResponseHead,
    ResponseReader,
    ResponseWriter,
    framing_for,
    strip_hop_by_hop,
)

SMUGGLED = b"GET /admin HTTP/1.1\r\nHost: a.example\r\n\r\n"
CHUNK = b"5\r\nhello\r\n0\r\n\r\n"


def post(fields: bytes, body: bytes, version: bytes = b"1.1") -> bytes:
    return b"POST /x HTTP/%b\r\nHost: a.example\r\n%b\r\n\r\n%b" % (version, fields, body)


FRAMING = {
    "CL.TE": b"Content-Length: 44\r\nTransfer-Encoding: chunked",
    "TE.CL": b"Transfer-Encoding: chunked\r\nContent-Length: 4",
    "CL.0 with TE": b"Content-Length: 0\r\nTransfer-Encoding: chunked",
    "TE.TE": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "TE twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "TE list": b"Transfer-Encoding: identity, chunked",
    "TE list, chunked not last": b"Transfer-Encoding: chunked, identity",
    "TE quoted": b'Transfer-Encoding: "chunked"',
    "TE with a parameter": b"Transfer-Encoding: chunked;q=0.5",
    "TE misspelt": b"Transfer-Encoding: xchunked",
    "TE with vertical tab": b"Transfer-Encoding: \x0bchunked",
    "TE with trailing byte": b"Transfer-Encoding: chunked\xa0",
    "TE empty": b"Transfer-Encoding:",
    "TE folded": b"Transfer-Encoding:\r\n chunked",
    "TE with blank before colon": b"Transfer-Encoding : chunked",
    "TE with tab before colon": b"Transfer-Encoding\t: chunked",
    "TE with leading blank": b" Transfer-Encoding: chunked",
    "TE with underscore": b"Content-Length: 5\r\nTransfer_Encoding: chunked",
    "TE behind a bare LF": b"Content-Length: 5\r\nX: y\nTransfer-Encoding: chunked",
    "TE behind a bare CR": b"Content-Length: 5\r\nX: y\rTransfer-Encoding: chunked",
    "TE behind a NUL": b"Content-Length: 5\r\nX: y\x00\r\nTransfer-Encoding: chunked",
    "TE name with NUL": b"Content-Length: 5\r\nTransfer-Encoding\x00: chunked",
    "TE without a colon": b"Transfer-Encoding chunked",
    "CL twice, different": b"Content-Length: 5\r\nContent-Length: 6",
    "CL twice, equal": b"Content-Length: 5\r\nContent-Length: 5",
    "CL list": b"Content-Length: 5, 5",
    "CL with sign": b"Content-Length: +5",
    "CL negative": b"Content-Length: -5",
    "CL hexadecimal": b"Content-Length: 0x5",
    "CL octal": b"Content-Length: 05",
    "CL with a fraction": b"Content-Length: 5.0",
    "CL in words": b"Content-Length: five",
    "CL with blank inside": b"Content-Length: 1 5",
    "CL empty": b"Content-Length:",
    "CL beyond 64 bits": b"Content-Length: 18446744073709551621",
    "CL with underscore": b"Content_Length: 5",
    "CL with dot": b"Content.Length: 5",
    "CL in other digits": "Content-Length: ５".encode(),
    "CL nominated": b"Content-Length: 5\r\nConnection: content-length",
    "CL folded": b"Content-Length: 5\r\n 5",
}


def read(wire: bytes) -> list[RequestHead | Data | End]:
    reader = RequestReader()
    return reader.feed(wire) + reader.eof()


@pytest.mark.parametrize("fields", [b"Content-Length: 5", b"content-length:5", b"Content-Length:\t5 "])
def test_control_a_counted_body_passes(fields: bytes) -> None:
    assert read(post(fields, b"hello"))[1:] == [Data(b"hello"), End()]


@pytest.mark.parametrize("fields", [b"Transfer-Encoding: chunked", b"transfer-encoding:CHUNKED"])
def test_control_a_chunked_body_passes(fields: bytes) -> None:
    assert read(post(fields, CHUNK))[1:] == [Data(b"hello"), End()]


@pytest.mark.parametrize("fields", FRAMING.values(), ids=FRAMING)
@pytest.mark.parametrize(
    "body", [b"hello", CHUNK, b"0\r\n\r\n" + SMUGGLED], ids=["counted", "chunked", "smuggled"]
)
def test_a_framing_that_can_be_read_in_two_ways_is_refused(fields: bytes, body: bytes) -> None:
    with pytest.raises(WireError) as refusal:
        read(post(fields, body))
    assert refusal.value.status in (400, 501)


@pytest.mark.parametrize("fields", FRAMING.values(), ids=FRAMING)
def test_the_same_framing_is_refused_from_an_upstream(fields: bytes) -> None:
    """A response that desynchronises us would answer the next request with bytes of the attacker."""
    reader = ResponseReader()
    reader.expect("GET")
    with pytest.raises(WireError) as refusal:
        reader.feed(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n\r\n" + CHUNK)
    assert refusal.value.status == 502


def test_chunks_do_not_exist_in_http_1_0() -> None:
    assert read(post(b"Content-Length: 5", b"hello", b"1.0"))[1:] == [Data(b"hello"), End()]
    with pytest.raises(WireError):
        read(post(b"Transfer-Encoding: chunked", CHUNK, b"1.0"))


CHUNKS = {
    "size with sign": b"+5\r\nhello\r\n0\r\n\r\n",
    "size with prefix": b"0x5\r\nhello\r\n0\r\n\r\n",
    "size with underscore": b"0_5\r\nhello\r\n0\r\n\r\n",
    "size beyond 64 bits": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "size with blank": b"5 \r\nhello\r\n0\r\n\r\n",
    "size missing": b"\r\nhello\r\n0\r\n\r\n",
    "size too small": b"4\r\nhello\r\n0\r\n\r\n",
    "size too large": b"6\r\nhello\r\n0\r\n\r\n",
    "bare LF behind the size": b"5\nhello\r\n0\r\n\r\n",
    "bare CR behind the size": b"5\rhello\r\n0\r\n\r\n",
    "bare LF behind the data": b"5\r\nhello\n0\r\n\r\n",
    "nothing behind the data": b"5\r\nhello0\r\n\r\n",
    "two bytes behind the data": b"5\r\nhelloxx0\r\n\r\n",
    "bare LF in an extension": b"5;a\nhello\r\n0\r\n\r\n",
    "bare CR in an extension": b"5;a\rhello\r\n0\r\n\r\n",
    "NUL in an extension": b"5;\x00\r\nhello\r\n0\r\n\r\n",
    "bare LF behind the last chunk": b"5\r\nhello\r\n0\n\n",
    "length in a trailer": b"5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n",
    "host in a trailer": b"5\r\nhello\r\n0\r\nHost: b.example\r\n\r\n",
    "credential in a trailer": b"5\r\nhello\r\n0\r\nAuthorization: x\r\n\r\n",
    "folded trailer": b"5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n",
    "early end": b"5\r\nhel",
    "no last chunk": b"5\r\nhello\r\n",
}


@pytest.mark.parametrize("body", CHUNKS.values(), ids=CHUNKS)
def test_a_chunk_that_can_be_read_in_two_ways_is_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        read(post(b"Transfer-Encoding: chunked", body))


@pytest.mark.parametrize(
    "line",
    [
        b"GET /\r /admin HTTP/1.1",
        b"GET / HTTP/1.1\rX: y",
        b"GET / HTTP/1.1\nX: y",
        b"GET /\x00 HTTP/1.1",
        b"GET\x0b/ HTTP/1.1",
    ],
)
def test_a_request_line_hides_no_second_line(line: bytes) -> None:
    assert read(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
    with pytest.raises(WireError):
        read(line + b"\r\nHost: a\r\n\r\n")


# What is taken is written anew -------------------------------------------------------------------


def forward(wire: bytes) -> bytes:
    """Read one request and write it for the upstream, as a lane does."""
    writer = RequestWriter()
    out = b""
    for event in RequestReader().feed(wire):
        match event:
            case RequestHead():
                out += writer.head(event.method, event.target, strip_hop_by_hop(event.headers), event.framing)
            case Data():
                out += writer.data(event.data)
            case End():
                out += writer.end(event.trailers)
    return out


def hear(wire: bytes) -> tuple[list[h11.Event], bytes]:
    """Return what h11 reads as the one message of `wire`, and what it would read as the next."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(wire)
    events: list[h11.Event] = []
    while not events or not isinstance(events[-1], h11.EndOfMessage):
        event = connection.next_event()
        assert isinstance(event, h11.Event)
        events.append(event)
    return events, connection.trailing_data[0]


@pytest.mark.parametrize(
    "wire",
    [
        post(b"Content-Length: 40", SMUGGLED),
        post(b"Transfer-Encoding: chunked", b"28\r\n%b\r\n0\r\n\r\n" % SMUGGLED),
        post(b"Transfer-Encoding: chunked", b"28;x=%b\r\n%b\r\n0\r\n\r\n" % (b"y" * 200, SMUGGLED)),
    ],
    ids=["counted", "chunked", "chunked with an extension"],
)
def test_a_body_that_looks_like_a_request_stays_a_body(wire: bytes) -> None:
    events, rest = hear(forward(wire))
    assert b"".join(bytes(event.data) for event in events if isinstance(event, h11.Data)) == SMUGGLED
    assert rest == b""


def test_no_byte_of_a_peers_framing_is_passed_on() -> None:
    wire = post(b"Transfer-Encoding: Chunked", b"0000005;secret=ext\r\nhello\r\n000\r\nX-Sum: 1\r\n\r\n")
    assert forward(wire) == (
        b"POST /x HTTP/1.1\r\nhost: a.example\r\ntransfer-encoding: chunked\r\n\r\n"
        b"5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n"
    )


def test_what_stands_behind_a_request_is_not_forwarded_with_it() -> None:
    assert SMUGGLED[:10] not in forward(post(b"Content-Length: 5", b"hello" + SMUGGLED))


def test_a_response_behind_a_response_reaches_nobody() -> None:
    reader = ResponseReader()
    reader.expect("GET")
    events = reader.feed(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    )
    assert events[1:] == [Data(b"ok"), End()]
    with pytest.raises(WireError):
        reader.expect("GET")


def test_a_response_cut_short_is_not_made_whole() -> None:
    """Chunks from upstream end in an error, and so does what the client gets: no last chunk is written."""
    reader, writer = ResponseReader(), ResponseWriter()
    reader.expect("GET")
    request = RequestReader().feed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")[0]
    assert isinstance(request, RequestHead)
    writer.answer(request)
    head, piece = reader.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")
    assert isinstance(head, ResponseHead)
    assert isinstance(piece, Data)
    out = writer.head(
        head.status, head.reason, strip_hop_by_hop(head.headers), framing_for(head.framing, "1.1")
    )
    out += writer.data(piece.data)
    with pytest.raises(WireError):
        reader.eof()
    assert writer.open
    assert not out.endswith(b"0\r\n\r\n")
