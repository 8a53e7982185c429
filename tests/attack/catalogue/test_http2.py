"""HTTP/2: heads that become something else as text, bodies that state no length, and what floods the proxy.

The client speaks HTTP/2 in all of it. The host behind speaks HTTP/1.1, where a field has to become a line, or
HTTP/2 as well.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from urllib.parse import quote

import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.attack.lab.attack_spellings import arrived
from tests.attack.lab.cases import case
from tests.attack.lab.harm import Finding, Harm
from tests.attack.lab.http2 import Http2, head
from tests.attack.lab.lab import Lab
from tests.attack.lab.leak_detector import leaks
from tests.attack.lab.names import API, BASIC, EVIL, HTTP2, OTHER, SCOPED
from tests.attack.lab.proxies import Proxy
from tests.proxy.lab.frames import Stream
from tests.proxy.lab.http1 import Fields
from tests.proxy.lab.http2 import Call
from tests.proxy.serve_process import until

pytestmark = pytest.mark.system("ip", "iproute2")

CALM, PROTOCOL = 11, 1
HIDDEN = f"DELETE /repos/acme/M4RK HTTP/1.1\r\nhost: {SCOPED}\r\n\r\n"


def pseudo(method: str = "GET", path: str = "/small", host: str = API, scheme: str = "https") -> Fields:
    return ((":method", method), (":scheme", scheme), (":authority", host), (":path", path))


# Heads ------------------------------------------------------------------------------------------

MARKED = ("x-mark", "M4RK")
HEADS: dict[str, Fields] = {
    "a method with a target in it": (*pseudo("DELETE /x?a="), MARKED),
    "a method with a line in it": pseudo("GET /small HTTP/1.1\r\nx: M4RK\r\n"),
    "a method in small letters": (*pseudo("delete"), MARKED),
    "no method": (*pseudo("")[1:], MARKED),
    "an empty method": (*pseudo(""), MARKED),
    "two methods": ((":method", "DELETE"), *pseudo(), MARKED),
    "a path with a version in it": pseudo(path="/small?M4RK HTTP/1.1\r\nx: y"),
    "a path with a blank": pseudo(path="/small M4RK"),
    "a path with a tab": pseudo(path="/small\tM4RK"),
    "a path with a NUL": pseudo(path="/small\0M4RK"),
    "a path with a fragment": pseudo(path="/small#M4RK"),
    "a full URL": pseudo(path=f"https://{EVIL}/M4RK"),
    "a full URL of the host": pseudo(path=f"https://{API}/M4RK"),
    "a path without its slash": pseudo(path="M4RK"),
    "a path of a backslash": pseudo(path="\\M4RK"),
    "a path of a star": (*pseudo(path="*"), MARKED),
    "an empty path": (*pseudo(path=""), MARKED),
    "no path": (*pseudo()[:3], MARKED),
    "two paths": ((":path", "/M4RK"), *pseudo(), MARKED),
    "another authority": (*pseudo(host=EVIL), MARKED),
    "an authority with a user": (*pseudo(host=f"{EVIL}@{API}"), MARKED),
    "an authority as a user": (*pseudo(host=f"{API}@{EVIL}"), MARKED),
    "an authority with another port": (*pseudo(host=f"{API}:80"), MARKED),
    "an authority with a path": (*pseudo(host=f"{API}/x"), MARKED),
    "an authority with a line": pseudo(host=f"{API}\r\nx: M4RK"),
    "an empty authority": (*pseudo(host=""), MARKED),
    "an authority and another host": (*pseudo(), ("host", EVIL), MARKED),
    "another authority and the host": (*pseudo(host=EVIL), ("host", API), MARKED),
    "two authorities": ((":authority", EVIL), *pseudo(), MARKED),
    "the host twice": (*pseudo(), ("host", API), ("host", EVIL), MARKED),
    "clear text": (*pseudo(scheme="http"), MARKED),
    "a scheme with a host": (*pseudo(scheme=f"https://{EVIL}/?"), MARKED),
    "no scheme": (pseudo()[0], *pseudo()[2:], MARKED),
    "fields before others that begin": (MARKED, *pseudo()),
    "a field in the middle": (*pseudo()[:2], MARKED, *pseudo()[2:]),
    "one that is not known": (*pseudo(), (":x", "M4RK")),
    "a status": (*pseudo(), (":status", "200"), MARKED),
    "a protocol": (*pseudo("CONNECT", "/ws"), (":protocol", "websocket"), MARKED),
    "a tunnel": ((":method", "CONNECT"), (":authority", f"{EVIL}:443"), MARKED),
    "a name in capitals": (*pseudo(), ("X-Mark", "M4RK")),
    "a name with a blank": (*pseudo(), ("x mark", "M4RK")),
    "a name with a colon": (*pseudo(), ("x:mark", "M4RK")),
    "a name with a line": (*pseudo(), ("x: y\r\nx-mark", "M4RK")),
    "an empty name": (*pseudo(), ("", "M4RK")),
    "a name beyond ASCII": (*pseudo(), ("x-m\xe4rk", "M4RK")),
    "a name with a NUL": (*pseudo(), ("x-\0mark", "M4RK")),
    "a value with a line": (*pseudo(), ("x", "y\r\nx-mark: M4RK")),
    "a value with a CR": (*pseudo(), ("x", "y\rM4RK")),
    "a value with a LF": (*pseudo(), ("x", "y\nM4RK")),
    "a value with a NUL": (*pseudo(), ("x", "y\0M4RK")),
    "a value with a whole request": (*pseudo(), ("x", f"y\r\n\r\n{HIDDEN}")),
    "a connection": (*pseudo(), ("connection", "x-mark"), MARKED),
    "a transfer coding": (*pseudo("POST"), ("transfer-encoding", "chunked"), MARKED),
    "a transfer coding in disguise": (*pseudo("POST"), ("transfer_encoding", "chunked"), MARKED),
    "an upgrade": (*pseudo(), ("upgrade", "websocket"), MARKED),
    "something kept alive": (*pseudo(), ("keep-alive", "1"), MARKED),
    "the connection of a proxy": (*pseudo(), ("proxy-connection", "close"), MARKED),
    "te with more than trailers": (*pseudo(), ("te", "gzip"), MARKED),
    "a length without a body": (*pseudo("POST"), ("content-length", "5"), MARKED),
    "a length in disguise": (*pseudo("POST"), ("content_length", "0"), MARKED),
    "lengths that differ": (*pseudo("POST"), ("content-length", "0"), ("content-length", "5"), MARKED),
    "a list of lengths": (*pseudo("POST"), ("content-length", "0, 0"), MARKED),
    "a length with a sign": (*pseudo("POST"), ("content-length", "+0"), MARKED),
    "a length that is none": (*pseudo("POST"), ("content-length", "x"), MARKED),
}
"""Requests that no host may be sent, whatever the host speaks."""


def speaking(proxy: Proxy, host: str) -> Http2:
    """A connection that stays open until the case ends: what is on its way may still come to the host."""
    return Http2(proxy.tunnel(host, alpn=("h2",)))


def _try(lab: Lab, proxy: Proxy, host: str, heads: dict[str, Fields]) -> list[str]:
    """Send every head on a connection of its own; the names of those that came to the host."""
    marks = {name: secrets.token_hex(8) for name in heads}
    for name, fields in heads.items():
        written = tuple(
            (key.replace("M4RK", marks[name]), text.replace("M4RK", marks[name])) for key, text in fields
        )
        if host != API:
            written = tuple((key, text.replace(API, host)) for key, text in written)
        speaker = speaking(proxy, host)
        stream = speaker.start(*written)
        if proxy.name == "egress":
            speaker.whole(stream)
            refused = stream.status >= 400 and stream.header("egress-denied")
            assert refused or stream.reset is not None or speaker.goaway is not None or speaker.line.ended, (
                name
            )
    return arrived(lab, proxy, host, {name: mark.encode() for name, mark in marks.items()})


@case("S-73", "heads that become something else as text", Harm.SENT)
def test_heads_that_become_something_else_as_text(lab: Lab, proxy: Proxy) -> None:
    # These the library of the naive proxy stops.
    stopped = {"one that is not known", "a list of lengths", "a length that is none"}
    heads = {name: HEADS[name] for name in HEADS if proxy.name == "egress" or name not in stopped}
    if passed := _try(lab, proxy, API, heads):
        raise Finding(Harm.SENT, f"passed on: {passed}")


@case("S-73", "heads that a host of HTTP/2 reads in its own way", Harm.SENT)
def test_heads_that_a_host_of_http2_reads_in_its_own_way(lab: Lab, proxy: Proxy) -> None:
    if proxy.name == "egress":
        assert _sent_to_h2(lab, proxy, HEADS) == []
    # What the naive proxy makes of the others, no host of HTTP/2 would take.
    bad = (
        "a name in capitals",
        "a value with a LF",
        "a transfer coding in disguise",
        "te with more than trailers",
    )
    if passed := _sent_to_h2(lab, proxy, {name: HEADS[name] for name in bad}):
        raise Finding(Harm.SENT, f"passed on: {passed}")


def _sent_to_h2(lab: Lab, proxy: Proxy, heads: dict[str, Fields]) -> list[str]:
    """The same, found in the fields that the host has decoded."""
    marks = {name: secrets.token_hex(8) for name in heads}
    for name, fields in heads.items():
        written = [
            (key.replace("M4RK", marks[name]), text.replace("M4RK", marks[name])) for key, text in fields
        ]
        speaker = speaking(proxy, HTTP2)
        stream = speaker.start(*((key, text.replace(API, HTTP2)) for key, text in written))
        if proxy.name == "egress":
            speaker.whole(stream)

    def seen() -> list[str]:
        texts = [str(each.fields) for each in lab.requests(proxy, lab.h2)]
        return [name for name, mark in marks.items() if any(mark in text for text in texts)]

    return lab.wait(proxy, seen)


@case("S-11 S-10", "an authority that is not the destination, on a connection that is good", Harm.STOLEN)
def test_an_authority_that_is_not_the_destination(lab: Lab, proxy: Proxy) -> None:
    """Among requests that are fine, and in the shapes that `Host` has in HTTP/1.1."""
    heads = (
        pseudo(host=EVIL),
        (*pseudo()[:2], pseudo()[3], ("host", EVIL)),
        (*pseudo(), ("x-forwarded-host", EVIL), ("forwarded", f"host={EVIL}")),
        pseudo(host=OTHER),
        pseudo(host=f"{API}.{EVIL}"),
        pseudo(host=f"{API}:8443"),
    )
    with proxy.tunnel(API, alpn=("h2",)) as line:
        speaker = Http2(line)
        for fields in heads:
            speaker.ask(API, "/small")
            stream = speaker.whole(speaker.start(*fields))
            if proxy.name == "egress":
                assert stream.header("egress-denied") in {"request.mismatch", None}, fields
    if proxy.name == "egress":
        hosts = {host for each in lab.requests(proxy, lab.api) for host in each.headers("host")}
        assert hosts == {API}, hosts


# Bodies -----------------------------------------------------------------------------------------

ISSUE = (*pseudo("POST", "/repos/acme/app/issues", SCOPED), ("content-type", "application/json"))


@case("S-73", "bodies without a length that read as requests", Harm.SENT)
def test_bodies_without_a_length_that_read_as_requests(lab: Lab, proxy: Proxy) -> None:
    """In one frame and in many, with padding, behind a length of 0, on a method without a body."""
    hidden = HIDDEN.encode()
    shapes: dict[str, tuple[Fields, Sequence[bytes]]] = {
        "one frame": (ISSUE, (hidden,)),
        "each byte": (ISSUE, [hidden[at : at + 1] for at in range(len(hidden))]),
        "behind a body": (ISSUE, (b"{}", hidden)),
        "behind an end of chunks": (ISSUE, (b"0\r\n\r\n", hidden)),
        "of a GET": (pseudo("GET", "/repos/acme/app", SCOPED), (hidden,)),
        "of a HEAD": (pseudo("HEAD", "/repos/acme/app", SCOPED), (hidden,)),
        "with its length": ((*ISSUE, ("content-length", str(len(hidden)))), (hidden,)),
    }
    for fields, pieces in shapes.values():
        speaker = speaking(proxy, SCOPED)
        stream = speaker.start(*fields, end=False)
        for piece in pieces:
            speaker.data(stream, piece)
        speaker.h2.end_stream(stream.id)
        speaker.flush()
        if proxy.name == "egress":
            assert speaker.whole(stream).status == 404
    if lab.sent(proxy, lab.scoped, lambda each: each.method == "DELETE"):
        raise Finding(Harm.SENT, "the host took a body for a request")
    if proxy.name == "egress":
        found = lab.requests(proxy, lab.scoped)
        assert [each.body for each in found] == [b"".join(pieces) for _, pieces in shapes.values()]


@case(
    "S-73",
    "bodies that are longer or shorter than they state",
    naive="the library that both use counts",
    twin="test_bodies_without_a_length_that_read_as_requests",
)
def test_bodies_that_are_longer_or_shorter_than_they_state(lab: Lab, proxy: Proxy) -> None:
    """What is behind the stated end is a request to a host of HTTP/1.1, what is missing the next one."""
    hidden = HIDDEN.encode()
    for stated, pieces in (
        ("2", (b"{}", hidden)),
        ("0", (hidden,)),
        ("9999", (hidden,)),
        ("2", (b"{}" + hidden,)),
    ):
        speaker = speaking(proxy, SCOPED)
        stream = speaker.start(*ISSUE, ("content-length", stated), end=False)
        for piece in pieces:
            speaker.data(stream, piece)
        speaker.h2.send_headers(stream.id, [("x-last", "1")], end_stream=True)
        speaker.flush()
        speaker.whole(stream)
        # What is whole as it was stated can be answered before more comes: it is then told nothing of that.
        is_whole = stated == "0" or pieces[0] == b"{}"
        is_refused = stream.reset is not None or speaker.goaway is not None or stream.status == 400
        assert is_refused or (is_whole and stream.status == 404), stated
        came = [each.body for each in lab.requests(proxy, lab.scoped) if each.complete]
        assert all(body in {b"", b"{}"} for body in came), stated
    assert not lab.sent(proxy, lab.scoped, lambda each: each.method == "DELETE")


# What comes back --------------------------------------------------------------------------------

Say = Callable[[Call, str], object]


def _shown(lab: Lab, proxy: Proxy, streams: Iterable[Stream]) -> None:
    """Raise the finding where the client has decoded a secret: on the wire, fields are packed."""
    wanted = [(each.name, each.value) for each in lab.secrets.all]
    for stream in streams:
        groups = [*stream.informational, stream.fields, stream.trailers]
        text = "\n".join(f"{name}: {value}" for fields in groups for name, value in fields)
        for leak in leaks(text.encode("latin-1") + b"\n\n" + bytes(stream.body), wanted):
            if leak.promised:
                raise Finding(Harm.LEAKED, f"{leak} on stream {stream.id} at {proxy.name}")


def _token(call: Call) -> str:
    return call.authorization.rpartition(" ")[2]


async def _in_the_head(call: Call) -> None:
    token = _token(call)
    await call.begin(103, ("link", f"</{quote(token, safe='')}>"))
    fields = (
        ("x-echo", token),
        ("x-basic", base64.b64encode(token.encode()).decode()),
        ("location", f"/{token}"),
    )
    await call.begin(
        200, *fields, ("content-disposition", f'attachment; filename="{token}"'), ("set-cookie", f"a={token}")
    )
    await call.say(b"see the head", end=True)


async def _in_the_body(call: Call) -> None:
    token = _token(call).encode()
    await call.begin(200, ("content-type", "text/plain"))
    for at in range(1, len(token), 5):
        await call.say(token[:at])
        await call.conversation.raw(
            DataFrame(call.stream.id, token[at : at + 3], pad_length=9, flags=["PADDED"]).serialize()
        )
        await call.say(token[at + 3 :] + b"\n")
    for at in range(len(token)):
        await call.say(token[at : at + 1])
    await call.say(b"\n" + base64.b64encode(b"u:" + token), end=True)


async def _in_the_trailers(call: Call) -> None:
    token = _token(call)
    await call.begin(200, ("content-type", "application/grpc"))
    message = token.encode()
    await call.say(b"\0" + len(message).to_bytes(4) + message[:7])
    await call.say(message[7:] + b"\0\0\0\0")
    await call.say(b"\x02ok")
    details = base64.b64encode(b"\n\x10" + token.encode()).decode().rstrip("=")
    last = (
        ("grpc-status", "7"),
        ("grpc-message", quote(token, safe="")),
        ("grpc-status-details-bin", details),
        ("x-t", token),
    )
    await call.conversation.headers(call.stream, last, end=True)


async def _in_a_trailers_only(call: Call) -> None:
    message = quote(_token(call), safe=" ")
    await call.begin(
        200, ("content-type", "application/grpc"), ("grpc-status", "16"), ("grpc-message", message), end=True
    )


def _in_case(change: Callable[[str], str]) -> Callable[[Call], Awaitable[None]]:
    """All of it in one case, in every place of an answer: hints, head, pieces of a body, and trailers."""

    async def handler(call: Call) -> None:
        token = change(_token(call))
        await call.begin(103, ("x-echo", token))
        await call.begin(200, ("x-echo", f"<{token}>"))
        await call.say(f"<{token[:9]}".encode())
        await call.say(f"{token[9:]}>".encode())
        await call.conversation.headers(call.stream, (("grpc-status", "7"), ("x-t", token)), end=True)

    return handler


async def _coded(call: Call) -> None:
    await call.begin(200, ("content-encoding", "gzip"))
    await call.say(gzip.compress(_token(call).encode() * 9), end=True)


async def _coded_messages(call: Call) -> None:
    packed = gzip.compress(_token(call).encode() * 9)
    await call.begin(200, ("content-type", "application/grpc"), ("grpc-encoding", "gzip"))
    await call.say(b"\1" + len(packed).to_bytes(4) + packed, end=True)


async def _a_message_of_no_kind(call: Call) -> None:
    token = _token(call).encode()
    await call.begin(200, ("content-type", "application/grpc"))
    await call.say(b"\2" + len(token).to_bytes(4) + token, end=True)


async def _reset_behind_it(call: Call) -> None:
    await call.begin(200, ("x-echo", _token(call)))
    await call.say(_token(call).encode())
    await call.conversation.reset(call.stream)


async def _in_a_push(call: Call) -> None:
    """Promised and sent, although that was switched off."""
    h2, token = call.conversation.h2, _token(call)
    fields = [(":method", "GET"), (":scheme", "https"), (":authority", HTTP2), (":path", f"/{token}")]
    promise = PushPromiseFrame(call.stream.id, 2, h2.encoder.encode(fields), flags=["END_HEADERS"])
    await call.conversation.flush()
    pushed = HeadersFrame(
        2, h2.encoder.encode([(":status", "200"), ("x-gift", token)]), flags=["END_HEADERS"]
    )
    data = DataFrame(2, token.encode(), flags=["END_STREAM"])
    await call.conversation.raw(promise.serialize() + pushed.serialize() + data.serialize())
    await call.begin(200, ("x-echo", token))
    await call.say(token.encode(), end=True)


HOSTILE = {
    "/h2/head": (_in_the_head, 200),
    "/h2/body": (_in_the_body, 200),
    "/h2/trailers": (_in_the_trailers, 200),
    "/h2/trailers-only": (_in_a_trailers_only, 200),
    "/h2/upper": (_in_case(str.upper), 200),
    "/h2/lower": (_in_case(str.lower), 200),
    "/h2/coded": (_coded, 200),
    "/h2/messages": (_coded_messages, 403),
    "/h2/no-message": (_a_message_of_no_kind, 0),
    "/h2/reset": (_reset_behind_it, 0),
    "/h2/push": (_in_a_push, 0),
}


@case("S-07 S-08 S-09 S-76", "a host of HTTP/2 that gives the secret back", Harm.LEAKED)
def test_a_host_of_http2_that_gives_the_secret_back(lab: Lab, proxy: Proxy) -> None:
    """In its head, hints, pieces of body, trailers, messages of gRPC and their status, and in a push.

    In capitals and in small letters, too: that is how headers and shells write it.
    """
    for path, (handler, status) in HOSTILE.items():
        lab.h2.handle(path, handler)
        with proxy.tunnel(HTTP2, alpn=("h2",)) as line:
            speaker = Http2(line)
            stream = speaker.ask(HTTP2, path)
            _shown(lab, proxy, speaker.streams.values())
            if proxy.name == "egress":
                assert not status or stream.status == status, f"{path}: {stream.fields}"
                assert path != "/h2/messages" or stream.header("egress-denied") == "response.withheld"
                # The same connection goes on.
                assert speaker.ask(HTTP2, "/small").status == 200, path


@case("S-76", "messages of gRPC that say themselves that they are compressed", Harm.LEAKED)
def test_messages_that_say_themselves_that_they_are_compressed(lab: Lab, proxy: Proxy) -> None:
    async def packed(call: Call) -> None:
        data = gzip.compress(_token(call).encode() * 9)
        await call.begin(200, ("content-type", "application/grpc+proto"))
        await call.say(b"\1" + len(data).to_bytes(4) + data)
        await call.conversation.headers(call.stream, (("grpc-status", "0"),), end=True)

    lab.h2.handle("/h2/packed", packed)
    with proxy.tunnel(HTTP2, alpn=("h2",)) as line:
        speaker = Http2(line)
        speaker.ask(HTTP2, "/h2/packed")
        _shown(lab, proxy, speaker.streams.values())


@case("S-09", "what a host of HTTP/1.1 gives back to a client of HTTP/2", Harm.LEAKED)
def test_what_a_host_of_http1_gives_back(lab: Lab, proxy: Proxy) -> None:
    """Chunks, trailers, hints, a reason phrase that has no place: all of it becomes frames."""
    paths = [
        "/echo",
        "/give/pieces",
        "/give/trailer",
        "/give/103",
        "/give/reason",
        "/give/value",
        "/give/middle",
    ]
    paths += ["/give/extension", "/trailers", "/103", "/echo-gzip", "/echo-br", "/cookie", "/until-close"]
    for host in (API, BASIC):
        with proxy.tunnel(host, alpn=("h2",)) as line:
            speaker = Http2(line)
            streams = [speaker.ask(host, path) for path in paths]
            if proxy.name == "egress":
                assert {stream.status for stream in streams} == {200}
                names = {name for stream in streams for name, _ in stream.fields}
                assert not names & {
                    "connection",
                    "transfer-encoding",
                    "keep-alive",
                    "upgrade",
                    "proxy-connection",
                }
            _shown(lab, proxy, speaker.streams.values())


# Floods -----------------------------------------------------------------------------------------

MANY = 3000


def _ping(number: int) -> Frame:
    return PingFrame(0, number.to_bytes(8))


class _raw_frame:  # noqa: N801 - stands where frames of the library do
    """A frame of any kind."""

    def __init__(self, kind: int, stream: int, body: bytes, length: int | None = None) -> None:
        size = len(body) if length is None else length
        self._bytes = size.to_bytes(3) + bytes([kind, 0]) + stream.to_bytes(4) + body

    def serialize(self) -> bytes:
        return self._bytes


FLOODS: dict[str, Callable[[int, int], Frame | _raw_frame]] = {
    "pings": lambda number, _: _ping(number),
    "answers to pings": lambda number, _: PingFrame(0, number.to_bytes(8), flags=["ACK"]),
    "settings": lambda number, _: SettingsFrame(0, {4: 65535 + number % 9}),
    "priorities": lambda _, stream: PriorityFrame(stream, depends_on=0, stream_weight=9),
    "frames that nobody knows": lambda number, _: _raw_frame(0xBE, 0, b"x" * (number % 9)),
    "empty data": lambda _, stream: DataFrame(stream, b""),
    "windows": lambda _, stream: WindowUpdateFrame(stream, 1),
}  # fmt: skip


@case("S-74", "floods of frames that cost their sender nothing", Harm.STARVED)
def test_floods_of_frames(lab: Lab, proxy: Proxy) -> None:
    """The connection is ended, whatever it still had to say; others are served."""
    endured = []
    for name, make in FLOODS.items():
        with proxy.tunnel(OTHER, alpn=("h2",)) as line:
            speaker = Http2(line)
            stream = speaker.start(*pseudo("POST", "/sink", OTHER), end=False)
            count = MANY * 8 if name == "windows" else MANY
            speaker.raw(b"".join(make(number, stream.id).serialize() for number in range(count)))
            speaker.raw(_ping(0).serialize()[:-8] + b"the last")
            # Its answer would say that all before it was taken.
            speaker.until(lambda s=speaker, n=line: b"the last" in n.received or s.goaway is not None)  # type: ignore[misc]
            if b"the last" in line.received:
                endured.append(name)
            elif proxy.name == "egress":
                assert speaker.goaway in {CALM, None}, f"{name} ended with {speaker.goaway}"
        if proxy.name == "egress":
            assert proxy.ask(OTHER, b"GET /small HTTP/1.1\r\nhost: other.good.test\r\n\r\n").status
    if proxy.name == "naive":
        assert set(FLOODS) - set(endured) <= {"windows"}, (
            f"even the naive proxy ends at {set(FLOODS) - set(endured)}"
        )
    if endured:
        raise Finding(Harm.STARVED, f"all of it was taken: {endured}")


@case("S-74", "requests that are taken back at once", Harm.STARVED)
def test_requests_that_are_taken_back_at_once(lab: Lab, proxy: Proxy) -> None:
    """Rapid reset: nearly none of them may come to the host, and the connection ends."""
    with proxy.tunnel(API, alpn=("h2",)) as line:
        speaker = Http2(line)
        block = speaker.h2.encoder.encode(list(pseudo(path="/small?reset")))
        data = bytearray()
        for number in range(240):
            stream = 2 * number + 1
            data += HeadersFrame(stream, block, flags=["END_HEADERS", "END_STREAM"]).serialize()
            data += RstStreamFrame(stream, 8).serialize()
        speaker.raw(bytes(data))
        if proxy.name == "egress":
            speaker.until(lambda: speaker.goaway is not None)
            assert speaker.goaway == CALM
        many = lab.wait(proxy, lambda: len(found) > 100 and found if (found := _resets(lab, proxy)) else [])
    if many or len(_resets(lab, proxy)) > 100:
        raise Finding(Harm.STARVED, f"the host was asked {len(_resets(lab, proxy))} times")


def _resets(lab: Lab, proxy: Proxy) -> list[object]:
    return [each for each in lab.requests(proxy, lab.api) if each.target == "/small?reset"]


@case(
    "S-74",
    "a head of thousands of pieces, and one that unpacks to megabytes",
    naive="the library that both use bounds these",
    twin="test_requests_that_are_taken_back_at_once",
)
def test_heads_without_end(lab: Lab, proxy: Proxy) -> None:
    start = HeadersFrame(1, b"\x82", flags=["END_STREAM"]).serialize()
    tiny = ContinuationFrame(1, b"").serialize()
    long = ContinuationFrame(1, b"\x40\x01a\x7f\x81\x7f" + b"b" * 256).serialize()
    # One long value into the table, and then a byte for each time that it is meant.
    seed = b"\x40\x01a\x7f\xa1\x1e" + b"b" * 4000
    bomb = HeadersFrame(
        1, b"\x82\x87\x84" + seed + b"\xbe" * 12_000, flags=["END_HEADERS", "END_STREAM"]
    ).serialize()
    for data in (start + tiny * 20_000, start + long * 2_000, bomb, start + _ping(1).serialize()):
        with proxy.tunnel(API, alpn=("h2",)) as line:
            speaker = Http2(line).raw(data)
            speaker.until(lambda s=speaker: s.goaway is not None)  # type: ignore[misc]
            assert speaker.goaway is not None or line.ended
            assert not line.silent, "it waits for more"
    assert lab.sent(proxy, lab.api) == []


@case(
    "S-74",
    "frames that break the protocol",
    naive="the library that both use ends these",
    twin="test_floods_of_frames",
)
def test_frames_that_break_the_protocol(lab: Lab, proxy: Proxy) -> None:
    """Each ends its own connection, with a word or without; nothing of it is a request."""
    head_block = b"\x82\x87\x84\x41\x0dapi.good.test"
    ask = HeadersFrame(1, head_block, flags=["END_HEADERS"]).serialize()
    wrong: dict[str, bytes] = {
        "DATA on no stream": b"\0\0\1\0\0\0\0\0\0x",
        "DATA on one that is not open": DataFrame(7, b"x").serialize(),
        "HEADERS on no stream": b"\0\0\1\1\5\0\0\0\0\x82",
        "HEADERS on an even stream": b"\0\0\1\1\5\0\0\0\2\x82",
        "padding beyond the frame": b"\0\0\2\0\x09\0\0\0\1\xff\0",
        "a window of nothing": ask + WindowUpdateFrame(0, 1).serialize()[:-4] + bytes(4),
        "a window beyond all": (WindowUpdateFrame(0, 2**31 - 1).serialize()) * 2,
        "settings of half a value": b"\0\0\5\4\0\0\0\0\0\0\4\0\0\0",
        "settings on a stream": b"\0\0\6\4\0\0\0\0\1\0\4\0\0\0\1",
        "a window setting beyond all": b"\0\0\6\4\0\0\0\0\0\0\4\xff\xff\xff\xff",
        "a frame size that is none": b"\0\0\6\4\0\0\0\0\0\0\5\0\0\0\1",
        "a push by the client": b"\0\0\5\5\4\0\0\0\1\0\0\0\2\x82",
        "a ping of seven bytes": b"\0\0\7\6\0\0\0\0\0" + b"1234567",
        "a reset of one that is not open": RstStreamFrame(9, 8).serialize(),
        "a stream that depends on itself": b"\0\0\5\2\0\0\0\0\1\0\0\0\1\x10",
        "a continuation of nothing": ContinuationFrame(1, head_block, flags=["END_HEADERS"]).serialize(),
        "a table index of nothing": HeadersFrame(1, b"\xff\xff\xff\x0f", flags=["END_HEADERS"]).serialize(),
        "a table that grows": HeadersFrame(
            1, b"\x3f\xe1\xff\x03" + head_block, flags=["END_HEADERS"]
        ).serialize(),
        "a second head": ask + HeadersFrame(1, head_block, flags=["END_HEADERS"]).serialize(),
        "a stream twice": ask + RstStreamFrame(1, 8).serialize() + ask,
        "HTTP/1.1 in the middle": b"GET /small HTTP/1.1\r\nhost: api.good.test\r\n\r\n" * 9,
    }
    for name, data in wrong.items():
        with proxy.tunnel(API, alpn=("h2",)) as line:
            speaker = Http2(line).raw(data)
            # An answer to this would say that it goes on.
            speaker.raw(_ping(0).serialize()[:-8] + b"goes on?")
            speaker.until(lambda s=speaker, n=line: s.goaway is not None or b"goes on?" in n.received)  # type: ignore[misc]
            assert not line.silent, f"{name}: neither answered nor ended"
    assert not [each for each in lab.sent(proxy, lab.api) if each.target != "/"]


@case(
    "S-74",
    "a preface that is none",
    naive="it reads whatever comes as a request",
    twin="test_floods_of_frames",
)
def test_a_preface_that_is_none(lab: Lab, proxy: Proxy) -> None:
    """Another protocol on a connection that has agreed on HTTP/2."""
    others = (
        b"GET /small HTTP/1.1\r\nhost: api.good.test\r\n\r\n",
        b"PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        b"\x16\x03\x01\0\x05hello" * 9,
        b"\0" * 200,
    )
    for data in others:
        with proxy.tunnel(API, alpn=("h2",)) as line:
            line.send(data + bytes(64)).everything()
            assert not line.silent, data
    assert lab.sent(proxy, lab.api) == []


def _memory(lab: Lab, proxy: Proxy) -> int:
    """Bytes that the proxy has in memory."""
    assert proxy.process is not None
    pages = lab.network.read(f"/proc/{proxy.process.pid}/statm").split()[1]
    return int(pages) * 4096


@case("S-74", "windows that are never opened", Harm.STARVED)
def test_windows_that_are_never_opened(lab: Lab, proxy: Proxy) -> None:
    """Of streams and of the connection, to hosts of either kind: what nobody takes is not kept."""
    before = _memory(lab, proxy)
    many, size = 6, 8 << 20
    for host, site in ((OTHER, lab.other), (HTTP2, lab.h2)):
        with proxy.tunnel(host, alpn=("h2",)) as line:
            speaker = Http2(line)
            speaker.acknowledges = False
            streams = [speaker.start(*head(host, f"/bytes?n={size}")) for _ in range(many)]
            until(lambda s=site: len(lab.requests(proxy, s)) >= many, "the requests at the host")  # type: ignore[misc]
            speaker.until(lambda s=streams: sum(len(each.body) for each in s) >= 60_000)  # type: ignore[misc]
            # Somebody else is served meanwhile, and so are the small ones.
            for _ in range(3):
                lab.control(proxy)
            grown = lab.wait(proxy, lambda: max(0, _memory(lab, proxy) - before - many * size // 2))
            if grown or _memory(lab, proxy) - before > many * size // 2:
                raise Finding(Harm.STARVED, f"{(_memory(lab, proxy) - before) >> 20} MiB are kept")


@case("S-74", "frames that are longer than may be", Harm.STARVED)
def test_frames_that_are_longer_than_may_be(lab: Lab, proxy: Proxy) -> None:
    """From the client and from the host: the length stands in front, so nothing of it has to be kept.

    A reader of frames by itself may keep up to 16 MiB before it looks at that.
    """
    before, many, size = _memory(lab, proxy), 6, 15 << 20

    async def too_long(call: Call) -> None:
        await call.begin(200)
        await call.conversation.raw(_raw_frame(0, call.stream.id, b"x" * size, (1 << 24) - 1).serialize())

    lab.h2.handle("/h2/too-long", too_long)
    for _ in range(many):
        line = proxy.tunnel(OTHER, alpn=("h2",))
        Http2(line).raw(_raw_frame(0xBE, 1, b"x" * size, (1 << 24) - 1).serialize())
    for _ in range(many):
        speaking(proxy, HTTP2).start(*head(HTTP2, "/h2/too-long"))
    until(lambda: len(lab.requests(proxy, lab.h2)) >= many, "the requests at the host")
    for _ in range(3):
        lab.control(proxy)
    grown = lab.wait(proxy, lambda: max(0, _memory(lab, proxy) - before - (32 << 20)))
    if grown or _memory(lab, proxy) - before > 32 << 20:
        raise Finding(Harm.STARVED, f"{(_memory(lab, proxy) - before) >> 20} MiB are kept")


@case(
    "S-74",
    "fifty streams of events over one connection",
    naive="it answers nothing before it has all of it",
    twin="test_windows_that_are_never_opened",
)
def test_fifty_streams_of_events(lab: Lab, proxy: Proxy) -> None:
    """All of them move while none has ended, to hosts of either kind."""
    begun: list[str] = []

    async def stream_1(visit: object) -> None:
        await visit.body()  # type: ignore[attr-defined]
        await visit.begin("200 OK", (("transfer-encoding", "chunked"),), "text/event-stream")  # type: ignore[attr-defined]
        await visit.chunk(b"data: begun\n\n")  # type: ignore[attr-defined]
        begun.append("1")
        await go.wait()
        await visit.end_chunks()  # type: ignore[attr-defined]

    async def stream_2(call: Call) -> None:
        await call.begin(200, ("content-type", "text/event-stream"))
        await call.say(b"data: begun\n\n")
        begun.append("2")
        await go.wait()
        await call.say(b"", end=True)

    for host in (OTHER, HTTP2):
        go = asyncio.Event()
        lab.other.handle("/h2/events", stream_1)
        lab.h2.handle("/h2/events", stream_2)
        with proxy.tunnel(host, alpn=("h2",)) as line:
            speaker = Http2(line)
            streams = [speaker.start(*head(host, "/h2/events")) for _ in range(50)]
            assert speaker.until(lambda s=streams: all(each.body for each in s)), "some do not move"  # type: ignore[misc]
            assert not any(each.complete for each in streams)
            assert speaker.ask(host, "/echo").status == 200
            lab.internet.run(_set(go))
            assert speaker.until(lambda s=streams: all(each.complete for each in s)), "some do not end"  # type: ignore[misc]


async def _set(event: asyncio.Event) -> None:
    event.set()


@case("S-55", "denied streams among allowed ones", Harm.SENT)
def test_denied_streams_among_allowed_ones(lab: Lab, proxy: Proxy) -> None:
    """Each is decided by itself, all in one write, and after the client has said goodbye."""
    heads = (
        pseudo("GET", "/repos/acme/app", SCOPED),
        pseudo("DELETE", "/repos/acme/app", SCOPED),
        pseudo("GET", "/user", SCOPED),
        pseudo("GET", "/repos/acme/app?last", SCOPED),
    )
    speaker = speaking(proxy, SCOPED)
    blocks = [speaker.h2.encoder.encode(list(fields)) for fields in heads]
    frames = [
        HeadersFrame(2 * at + 1, block, flags=["END_HEADERS", "END_STREAM"])
        for at, block in enumerate(blocks)
    ]
    data = b"".join(frame.serialize() for frame in frames)
    speaker.raw(data + GoAwayFrame(0, last_stream_id=0, error_code=0).serialize())
    if proxy.name == "egress":
        # It answers what was asked, and closes then.
        speaker.line.everything()
        assert not speaker.line.silent
    fine = {"/repos/acme/app", "/repos/acme/app?last"}
    if lab.sent(proxy, lab.scoped, lambda each: each.method != "GET" or each.target not in fine):
        raise Finding(Harm.SENT, "a denied stream came to the host")
    if proxy.name == "egress":
        assert {each.target for each in lab.requests(proxy, lab.scoped)} == fine
