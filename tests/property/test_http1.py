"""The readers for any bytes: total, indifferent to cutting, and never more lenient than h11.

h11 is the oracle. Wherever it takes a message that we refuse, our reason is in `STRICTER`; whatever
we take, it must take too and understand in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import h11
from hypothesis import example, given, settings
from hypothesis import strategies as st

from egress.errors import WireError
from egress.http1 import (
    Data,
    End,
    Informational,
    MessageLimits,
    RequestHead,
    RequestReader,
    ResponseHead,
    ResponseReader,
)
from egress.http1.fields import is_forbidden
from egress.types import Headers
from tests.tiers import examples

STRICTER = {
    "A line ends in a bare CR or LF.": "h11 takes LF alone for a line end; other parsers do not",
    "A header field is folded over several lines.": "obsolete, and unfolded differently by everybody",
    "The head contains a control byte.": "h11 lets all but NUL and white space pass in values",
    "The head has both Content-Length and Transfer-Encoding.": "RFC 9112 6.1 allows to prefer one; smuggling",
    "A field that must occur once is repeated.": "h11 merges equal lengths",
    "Content-Length is not a plain number.": "h11 takes `5, 5`, leading zeros and 20 digits",
    "HTTP/1.0 has no Transfer-Encoding.": "RFC 9112 6.1: faulty framing",
    "A field name imitates Content-Length or Transfer-Encoding.": "a CGI behind us would fold the name",
    "The version is neither HTTP/1.1 nor HTTP/1.0.": "h11 reads any digits",
    "The Host field is not one host with an optional port.": "h11 does not look into Host",
    "The request line is malformed.": "methods of more than 32 characters, fragments in the target",
    "The request target has no valid form.": "h11 takes any visible characters",
    "Only OPTIONS may have the target `*`.": "same",
    "The target of CONNECT is not host:port.": "same",
    "A CONNECT request has a body.": "RFC 9110 9.3.6 gives it no meaning",
    "The expectation is not `100-continue`.": "RFC 9110 10.1.1 allows 417",
    "The Connection field is malformed.": "h11 splits without looking",
    "The Connection field nominates Host or Content-Length.": "we would have to strip what we need",
    "The Upgrade field is malformed.": "h11 does not read it",
    "The status line is malformed.": "statuses from 600, versions other than 1.0 and 1.1",
    "A response that cannot have a body states one.": "h11 ignores the length; others read it",
    "The response switches to a protocol that was not asked for.": "h11 does not compare",
    "A trailer field belongs in the head.": "h11 hands it on",
    "A chunk is malformed, or its extension is too long.": "h11 takes blanks, 20 digits, long lines",
}


@dataclass
class Outcome:
    """What a reader made of some bytes, up to the end of the first message."""

    heads: list[RequestHead | ResponseHead | Informational] = field(default_factory=list)
    body: bytes = b""
    end: End | None = None
    fault: tuple[str, int] | None = None

    def take(
        self, events: list[RequestHead | Data | End] | list[ResponseHead | Informational | Data | End]
    ) -> None:
        for event in events:
            assert self.end is None, "an event behind the end"
            match event:
                case Data(data):
                    assert data, "an empty piece of body"
                    self.body += data
                case End():
                    self.end = event
                case _:
                    self.heads.append(event)


def drive(reader: RequestReader | ResponseReader, pieces: list[bytes]) -> Outcome:
    outcome = Outcome()
    try:
        for piece in pieces:
            outcome.take(reader.feed(piece))
        outcome.take(reader.eof())
    except WireError as error:
        outcome.fault = (error.message, error.status)
        outcome.end = None
    return outcome


def read_request(pieces: list[bytes], limits: MessageLimits | None = None) -> Outcome:
    return drive(RequestReader(limits or MessageLimits()), pieces)


def read_response(pieces: list[bytes], method: str, upgrade: tuple[str, ...] = ()) -> Outcome:
    reader = ResponseReader()
    reader.expect(method, upgrade=upgrade)
    return drive(reader, pieces)


# Messages: valid, nearly valid, broken ----------------------------------------------------------

METHODS = ["GET", "POST", "HEAD", "OPTIONS", "CONNECT", "get", "PATCH!", "M" * 33, "G(T"]
TARGETS = [
    "/", "/a/../b?c=d%20", "*", "a.example:443", "http://a.example/x", "https://u@a/", "/#f", "//x",
    "[::1]:1", "x",
]  # fmt: skip
VERSIONS = ["HTTP/1.1"] * 8 + ["HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.1 "]
STATUSES = [
    "200", "200", "200", "204", "304", "101", "100", "103", "205", "404", "599", "600", "099", "20", "2000",
]  # fmt: skip
FIELDS = [
    "Host: a.example", "Host: a.example", "Host: a.example", "Host: b@a", "Host:", "Host : a",
    "Content-Length: 5", "Content-Length: 5", "Content-Length: 0", "Content-Length: 05",
    "Content-Length: +5", "Content-Length: 5, 5", "content_length: 5",
    "Content-Length: 99999999999999999999", "Content-Length:", "Transfer-Encoding: chunked",
    "Transfer-Encoding: Chunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding : chunked", "Transfer-Encoding: \x0bchunked", "transfer_encoding: chunked", "X-A: b",
    "X-A:\tb \t", "X-A:", "X-A: a b\tc", "X-A: \x01", "X-A: \x00", "X-A: a\rb", "X-A: \xe9", " folded",
    "\tfolded", "Bad Name: x", ": x", "x", "X(: y", "Connection: close", "Connection: keep-alive, X-A",
    "Connection: host", "Connection: a b", "Connection: upgrade", "Upgrade: websocket", "Upgrade: a b",
    "Expect: 100-continue", "Expect: cake", "",
]  # fmt: skip
SOUND_FIELDS = [
    "X-A: b", "X-B:\t\xe9 ", "X-C:", "Connection: close", "Connection: X-A", "Connection: upgrade",
    "Upgrade: websocket", "Upgrade: a b", "Expect: 100-continue", "Set-Cookie: a", "Set-Cookie: b",
]  # fmt: skip
BODIES = [
    "hello", "hellohello", "5\r\nhello\r\n0\r\n\r\n", "5;a=b\r\nhello\r\n0\r\nX-T: 1\r\n\r\n",
    "5 \r\nhello\r\n0\r\n\r\n", "5\nhello\n0\n\n", "0x5\r\nhello\r\n0\r\n\r\n", "5\r\nhello0\r\n\r\n",
    "5\r\nhelloX\r\n0\r\n\r\n", "-5\r\nhello", "5\r\nhel", "00000000000000005\r\nhello\r\n0\r\n\r\n",
    "5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n", "0\r\n\r\nGET / HTTP/1.1\r\n",
    "5;\x01\r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n5\r\nhello\r\n0\r\nX-T : 1\r\n\r\n", "",
    "A\r\n0123456789\r\n00\r\n\r\n", "5;a\nb\r\nhello\r\n0\r\n\r\n",
]  # fmt: skip
MARKS = [
    b"\r", b"\n", b"\r\n", b"\x00", b" ", b"\t", b":", b",", b"\x7f", b"\xff", b"0", b"chunked",
    b"\r\n\r\n", b"x",
]  # fmt: skip

line_ends = st.sampled_from(["\r\n"] * 12 + ["\n", "\r", "\r\r\n", "\n\r"])


@st.composite
def messages(draw: st.DrawFn, first_lines: st.SearchStrategy[str]) -> bytes:
    """A message that is valid, or has a few things wrong with it."""
    lines = [draw(first_lines)]
    if draw(st.integers(0, 3)):
        lines.append("Host: a.example")
    lines += draw(st.lists(st.sampled_from(FIELDS), max_size=5))
    text = "".join(line + (draw(line_ends) if draw(st.integers(0, 9)) == 0 else "\r\n") for line in lines)
    return mutated(draw, (text + "\r\n" + draw(st.sampled_from(BODIES))).encode("latin-1"))


def mutated(draw: st.DrawFn, message: bytes) -> bytes:
    data = bytearray(message)
    for _ in range(draw(st.sampled_from([0, 0, 0, 0, 1, 2]))):
        start = draw(st.integers(0, len(data)))
        data[start : start + draw(st.integers(0, 2))] = draw(st.sampled_from(MARKS))
    return bytes(data)


chunk_lines = st.sampled_from(["{:x}", "{:X}", "{:04x}", "{:x};a", '{:x};a="b"', "{:x} ", "{:x}; a"])
trailer_lines = st.sampled_from(["X-T: 1", "X-U:\t2 ", "X-V:", "Host: b", "Content-Type: x"])


@st.composite
def sound_messages(draw: st.DrawFn, first_lines: st.SearchStrategy[str]) -> bytes:
    """A message whose framing and body agree, with at most a scratch."""
    lines = [draw(first_lines), "Host: a.example", *draw(st.lists(st.sampled_from(SOUND_FIELDS), max_size=3))]
    parts = draw(st.lists(st.binary(min_size=1, max_size=20), max_size=4))
    body = b"".join(parts)
    match draw(st.sampled_from(["none", "length", "chunked", "chunked"])):
        case "length":
            lines.append(f"Content-Length: {len(body)}")
        case "chunked":
            lines.append("Transfer-Encoding: chunked")
            sizes = [draw(chunk_lines).format(len(part)).encode() for part in parts]
            body = b"".join(b"%b\r\n%b\r\n" % pair for pair in zip(sizes, parts, strict=True))
            trailers = "".join(line + "\r\n" for line in draw(st.lists(trailer_lines, max_size=2)))
            body += f"0\r\n{trailers}\r\n".encode()
        case _:
            body = draw(st.sampled_from([b"", body]))
    return mutated(draw, "\r\n".join([*lines, "", ""]).encode("latin-1") + body)


request_lines = st.builds(
    "{} {} {}".format, *map(st.sampled_from, (["GET", *METHODS], ["/", *TARGETS], VERSIONS))
)
plain_lines = st.sampled_from(["GET / HTTP/1.1", "POST /x HTTP/1.1"])
ok_lines = st.just("HTTP/1.1 200 OK")
status_lines = st.builds(
    "{} {}{}".format,
    st.sampled_from(VERSIONS),
    st.sampled_from(STATUSES),
    st.sampled_from([" OK", " OK", " ", "", " \xe9t\xe9", " a\x01", "  x"]),
)
requests = st.one_of(
    sound_messages(plain_lines),
    sound_messages(plain_lines),
    sound_messages(request_lines),
    messages(plain_lines),
    messages(request_lines),
    st.binary(max_size=60),
)
responses = st.one_of(
    sound_messages(ok_lines),
    sound_messages(ok_lines),
    sound_messages(status_lines),
    messages(ok_lines),
    messages(status_lines),
    st.tuples(messages(st.just("HTTP/1.1 103 x")), messages(status_lines)).map(b"".join),
    st.binary(max_size=60),
)
client_methods = st.sampled_from(["GET", "HEAD", "CONNECT", "POST"])
upgrades = st.sampled_from([(), ("websocket",)])
cuts = st.lists(st.integers(0, 300), max_size=8)


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def bytes_of(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


# Cutting ----------------------------------------------------------------------------------------


def same(whole: Outcome, cut: Outcome) -> None:
    """Equal, but that a reader drops what the failing call itself had parsed."""
    assert whole.fault == cut.fault
    if whole.fault is None:
        assert whole == cut
    else:
        assert cut.heads[: len(whole.heads)] == whole.heads
        assert cut.body.startswith(whole.body)


@settings(max_examples=examples(300))
@given(requests, cuts)
@example(
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\nA: b\r\n\r\n", []
)
@example(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", [])
@example(b"\r\n\x00\r\n\r\n", [])
@example(b"GET / HTTP/9.9\r\nA: \x00\r\n\r\n", [])
def test_how_a_request_is_cut_changes_nothing(data: bytes, cuts: list[int]) -> None:
    whole = read_request([data])
    same(whole, read_request(pieces_of(data, cuts)))
    same(whole, read_request(bytes_of(data)))


@settings(max_examples=examples(300))
@given(responses, client_methods, upgrades, cuts)
def test_how_a_response_is_cut_changes_nothing(
    data: bytes, method: str, upgrade: tuple[str, ...], cuts: list[int]
) -> None:
    whole = read_response([data], method, upgrade)
    same(whole, read_response(pieces_of(data, cuts), method, upgrade))
    same(whole, read_response(bytes_of(data), method, upgrade))
    assert whole.fault is None or whole.fault[1] == 502


TIGHT = MessageLimits(
    head=60, fields=2, target=20, chunk_extension=4, chunk_extensions=6, trailers=20, trailer_fields=1
)


@settings(max_examples=examples(200))
@given(requests, cuts)
@example(b"GET /" + b"a" * 90, [])
@example(b"GET / HTTP/1.1\r\nA:" + b"a" * 90, [])
@example(b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"a" * 25 + b"\r\n\r\n", [59, 60, 61])
def test_where_a_limit_bites_does_not_depend_on_cutting(data: bytes, cuts: list[int]) -> None:
    whole = read_request([data], TIGHT)
    same(whole, read_request(pieces_of(data, cuts), TIGHT))
    same(whole, read_request(bytes_of(data), TIGHT))


# The oracle -------------------------------------------------------------------------------------


@dataclass
class Heard:
    """What h11 made of the same bytes."""

    head: h11.Request | h11.Response | h11.InformationalResponse | None = None
    interim: int = 0
    body: bytes = b""
    trailers: Headers = ()
    ended: bool = False
    refused: bool = False


def hear(connection: h11.Connection, data: bytes) -> Heard:
    heard = Heard()
    try:
        for piece in (data, b""):
            connection.receive_data(piece)
            _drain(connection, heard)
            if heard.ended:
                return heard
    except h11.RemoteProtocolError:
        heard.refused = True
    return heard


def _drain(connection: h11.Connection, heard: Heard) -> None:
    while not heard.ended:
        event = connection.next_event()
        match event:
            case h11.InformationalResponse(status_code=101) | h11.Request() | h11.Response():
                heard.head = event
                # h11 leaves the rest of a switched connection alone, as we do.
                heard.ended = connection.their_state is h11.SWITCHED_PROTOCOL
            case h11.InformationalResponse():
                heard.interim += 1
            case h11.Data(data=piece):
                heard.body += bytes(piece)
            case h11.EndOfMessage(headers=trailers):
                heard.trailers, heard.ended = text(trailers), True
            case _:
                return


def text(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)


def end_to_end(headers: Headers) -> Headers:
    """Framing is compared by the body it gives."""
    return tuple(pair for pair in headers if pair[0] not in ("content-length", "transfer-encoding"))


def agree(ours: Outcome, heard: Heard) -> None:
    """Both took the message for the same, or we have a reason on the list."""
    if ours.end is None:
        if heard.ended:
            assert ours.fault is not None
            assert ours.fault[0] in STRICTER, ours.fault
        return
    assert heard.ended, "we took what h11 refuses"
    assert heard.head is not None
    head = ours.heads[-1]
    assert end_to_end(head.headers) == end_to_end(text(heard.head.headers))
    assert ours.body == heard.body
    # Only a server's can differ: a client's would have been refused.
    assert ours.end.trailers == tuple(pair for pair in heard.trailers if not is_forbidden(pair[0]))
    match head, heard.head:
        case RequestHead(), h11.Request(method=method, target=target, http_version=version):
            assert (head.method, head.target, head.version) == (
                method.decode(),
                target.decode(),
                version.decode(),
            )
        case ResponseHead(), h11.Response(status_code=status) | h11.InformationalResponse(status_code=status):
            assert (head.status, len(ours.heads) - 1) == (status, heard.interim)
        case _:
            raise AssertionError("different kinds of head")


def server() -> h11.Connection:
    return h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)


def client(method: str, upgrade: tuple[str, ...]) -> h11.Connection:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    headers = [("Host", "a.example")]
    if upgrade:
        headers += [("Connection", "upgrade"), ("Upgrade", ", ".join(upgrade))]
    connection.send(h11.Request(method=method, target="/", headers=headers))
    connection.send(h11.EndOfMessage())
    return connection


@settings(max_examples=examples(500))
@given(requests)
@example(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
@example(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n")
def test_a_request_is_never_read_more_leniently_than_by_h11(data: bytes) -> None:
    agree(read_request([data]), hear(server(), data))


@settings(max_examples=examples(500))
@given(responses, client_methods, upgrades)
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "GET", ())
@example(b"HTTP/1.1 103 x\r\n\r\nHTTP/1.0 200\r\n\r\nhello", "GET", ())
@example(b"HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nraw", "GET", ("websocket",))
@example(b"HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nraw", "GET", ("websocket",))
@example(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\nHost: b\r\n\r\n", "GET", ())
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "GET", ())
def test_a_response_is_never_read_more_leniently_than_by_h11(
    data: bytes, method: str, upgrade: tuple[str, ...]
) -> None:
    agree(read_response([data], method, upgrade), hear(client(method, upgrade), data))
