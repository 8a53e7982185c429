"""WebSockets: who may open one, and what of a secret comes back in its frames."""

from __future__ import annotations

import base64
import html
import json
import zlib
from collections.abc import Callable, Iterable
from urllib.parse import quote

import pytest
from wsproto.utilities import generate_accept_token

from tests.attack.catalogue.extended_rules import WALL
from tests.attack.lab.attack_spellings import MARK, arrived, tell, try_all
from tests.attack.lab.cases import case
from tests.attack.lab.client import Line, request
from tests.attack.lab.harm import Finding, Harm
from tests.attack.lab.hostile_handlers import credential
from tests.attack.lab.http2 import Http2, head
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import API, EVIL, SCOPED, SOCKETS
from tests.attack.lab.proxies import Egress, Proxy
from tests.attack.lab.websocket import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    TEXT,
    Frame,
    ask_for_websocket,
    frame,
    frames,
)
from tests.proxy.lab.upstream_request import UpstreamRequest
from tests.proxy.lab.websocket import NONCE

pytestmark = pytest.mark.system("ip", "iproute2")

KEY = f"sec-websocket-key: {NONCE}"
ASKING = ("upgrade: websocket", "connection: Upgrade", "sec-websocket-version: 13", KEY)
MORE = 0
"""A frame that goes on with a message."""


@pytest.fixture
def egress(wide: Egress) -> Egress:
    return wide


# Who may open one -------------------------------------------------------------------------------


def opening(host: str, target: str, *lines: str, method: str = "GET") -> bytes:
    return request(host, target, "x-mark: M4RK", *lines, method=method)


@case("S-25", "a WebSocket where no rule opens one", Harm.SENT)
def test_a_websocket_where_no_rule_opens_one(lab: Lab, proxy: Proxy) -> None:
    """On a host without, on another path of a host with, and in every spelling of the asking."""
    refused = ((426, "rule.websocket"), (403, "request.upgrade"), (400, "request.malformed"))
    asks = {
        "plainly": ASKING,
        "in capitals": ("UPGRADE: WEBSOCKET", "CONNECTION: UPGRADE", "Sec-WebSocket-Version: 13", KEY),
        "among others": ("upgrade: websocket", "connection: keep-alive, upgrade", KEY),
        "in two lines": ("upgrade: websocket", "connection: keep-alive", "connection: upgrade", KEY),
        "with a version": ("upgrade: websocket/13", "connection: upgrade", KEY),
        "twice": ("upgrade: websocket", "upgrade: websocket", "connection: upgrade", KEY),
        "with another": ("upgrade: h2c, websocket", "connection: upgrade", KEY),
        "without a key": ("upgrade: websocket", "connection: upgrade"),
        "with a length": (*ASKING, "content-length: 0"),
        "with a body": (*ASKING, "content-length: 1"),
        "with chunks": (*ASKING, "transfer-encoding: chunked"),
    }
    for host, target in (
        (API, "/ws"),
        (SOCKETS, "/other"),
        (SOCKETS, "/ws/x"),
        (SOCKETS, "/WS"),
        (SOCKETS, "/ws/"),
    ):
        shapes = {name: opening(host, target, *lines) for name, lines in asks.items()}
        if passed := try_all(lab, proxy, host, shapes, *refused):
            raise Finding(Harm.SENT, f"{host}{target} was asked for a WebSocket: {passed}")
    shapes = {name: opening(SCOPED, "/repos/acme/app", *lines) for name, lines in asks.items()}
    if passed := try_all(lab, proxy, SCOPED, shapes, *refused):
        raise Finding(Harm.SENT, f"asked for a WebSocket: {passed}")


@case("S-25", "other protocols than WebSocket, and WebSockets that are none", Harm.SENT)
def test_other_protocols_than_websocket(lab: Lab, proxy: Proxy) -> None:
    """On the very path where a rule opens one."""
    refused = ((403, "request.upgrade"), (400, "request.malformed"), (403, "method.refused"))
    shapes = {
        protocol: opening(SOCKETS, "/ws", f"upgrade: {protocol}", "connection: upgrade", KEY)
        for protocol in (
            "foo",
            "h2c",
            "h2",
            "TLS/1.0",
            "HTTP/2.0",
            "websocket2",
            "web socket",
            "SSH",
            "connect-udp",
        )
    }
    both = ("upgrade: websocket, foo", "connection: upgrade", "sec-websocket-version: 13", KEY)
    shapes["with another"] = opening(SOCKETS, "/ws", *both)
    shapes["another first"] = opening(
        SOCKETS, "/ws", *(line.replace("websocket,", "foo, websocket,") for line in both)
    )
    shapes["in two lines"] = opening(SOCKETS, "/ws", "upgrade: foo", *ASKING)
    shapes["h2c with settings"] = opening(
        SOCKETS,
        "/ws",
        "upgrade: h2c",
        "connection: upgrade, http2-settings",
        "http2-settings: AAMAAABkAAQAAP__",
    )
    shapes["by POST"] = opening(SOCKETS, "/ws", *ASKING, method="POST")
    shapes["by CONNECT"] = opening(SOCKETS, "/ws", *ASKING, method="CONNECT")
    shapes["with a body"] = opening(SOCKETS, "/ws", *ASKING, "content-length: 4") + b"body"
    shapes["with chunks"] = opening(SOCKETS, "/ws", *ASKING, "transfer-encoding: chunked") + b"0\r\n\r\n"
    shapes["for another host"] = opening(EVIL, "/ws", *ASKING)
    if passed := try_all(lab, proxy, SOCKETS, shapes, *refused, (421, "request.mismatch")):
        raise Finding(Harm.SENT, f"passed on: {passed}")


@case("S-25", "bytes behind a request that only looks like a switch", Harm.SENT)
def test_bytes_behind_a_request_that_only_looks_like_a_switch(lab: Lab, proxy: Proxy) -> None:
    """Where nobody switches, what follows is the next request, and is decided."""
    hidden = b"DELETE /repos/acme/M4RK HTTP/1.1\r\nhost: %b\r\n\r\n" % SCOPED.encode()
    asks = (ASKING, ("upgrade: websocket", KEY), ("upgrade: foo",))
    shapes = {repr(lines): request(SCOPED, "/repos/acme/app", *lines) + hidden for lines in asks}
    shapes["HTTP/1.0"] = shapes[repr(ASKING)].replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    if passed := try_all(lab, proxy, SCOPED, shapes):
        raise Finding(Harm.SENT, f"passed on: {passed}")


@case("S-25", "a WebSocket by way of HTTP/2", Harm.SENT)
def test_a_websocket_by_way_of_http2(lab: Lab, proxy: Proxy) -> None:
    """Extended CONNECT is not offered, so nobody may send one."""
    asks = (
        ((":method", "CONNECT"), (":protocol", "websocket"), *head(SOCKETS, "/ws")[1:]),
        ((":method", "GET"), (":protocol", "websocket"), *head(SOCKETS, "/ws")[1:]),
        (*head(SOCKETS, "/ws"), ("upgrade", "websocket"), ("connection", "upgrade")),
        (*head(SOCKETS, "/ws"), ("upgrade", "websocket"), ("sec-websocket-key", NONCE)),
        ((":method", "CONNECT"), (":authority", f"{EVIL}:443")),
    )
    for fields in asks:
        # Left open: what is on its way may still come to the host.
        speaker = Http2(proxy.tunnel(SOCKETS, alpn=("h2",)))
        stream = speaker.start(*fields, end=proxy.name == "naive")
        if proxy.name == "egress":
            assert speaker.whole(stream).status != 200
    if lab.sent(proxy, lab.sockets, lambda each: each.method == "CONNECT" or bool(each.header("upgrade"))):
        raise Finding(Harm.SENT, "the host was asked to switch")


SWITCHES = {
    "unasked": ("websocket", True),
    "to another protocol": ("foo", True),
    "without saying to what": ("", True),
    "with a wrong answer": ("websocket", False),
}


@case("S-25", "a switch that was not agreed on", Harm.LEAKED)
def test_a_switch_that_was_not_agreed_on(lab: Lab, proxy: Proxy) -> None:
    """Nothing of what the host says behind it arrives: not raw, not as frames."""
    for at, (name, (protocol, is_right)) in enumerate(SWITCHES.items()):

        async def switch(visit: UpstreamRequest, protocol: str = protocol, right: bool = is_right) -> None:
            visit.over = True
            secret = credential(visit)
            accept = generate_accept_token((visit.request.header("sec-websocket-key") or NONCE).encode())
            lines = [b"HTTP/1.1 101 Switching"]
            lines += [b"upgrade: " + protocol.encode(), b"connection: upgrade"] if protocol else []
            lines += [b"sec-websocket-accept: " + (accept if right else b"AAAA")]
            await visit.channel.send(
                b"\r\n".join([*lines, b"", b""]) + frame(TEXT, secret, masked=False) + secret
            )

        lab.sockets.handle(f"/ws-{at}", switch)
        lab.sockets.handle("/ws", switch)
        with proxy.tunnel(SOCKETS) as line:
            if name == "unasked":
                answer = line.send(request(SOCKETS, f"/ws-{at}")).response()
            else:
                answer = ask_for_websocket(line, SOCKETS)
            proxy.expects(answer, (502, "upstream.malformed"))
            # What was sent behind it would come now.
            if proxy.name == "egress":
                assert line.send(request(SOCKETS, "/small")).response().status == 200
            else:
                line.some()


# What comes back --------------------------------------------------------------------------------

Frames = Callable[[bytes], Iterable[bytes]]


def serving(lab: Lab, host: str, said: Frames, *lines: str, reason: str = "Go", stays: bool = True) -> None:
    """Let a host switch, say frames made of the credential, and take what comes until the end.

    `lines` are more lines for its head, in which `{}` stands for the credential.
    """

    async def serve(visit: UpstreamRequest) -> None:
        visit.over = True
        secret = credential(visit)
        accept = generate_accept_token((visit.request.header("sec-websocket-key") or NONCE).encode())
        start = [f"HTTP/1.1 101 {reason}", "upgrade: websocket", "connection: Upgrade"]
        fields = "\r\n".join([*start, f"sec-websocket-accept: {accept.decode()}", *lines, "", ""])
        await visit.channel.send(fields.encode("latin-1").replace(b"{}", secret))
        for data in said(secret):
            await visit.channel.send(data)
        while stays and await visit.channel.some():
            pass
        await visit.channel.close()

    lab.internet.sites.get(host, lab.any).handle("/ws", serve)


def plain(kind: int, data: bytes, *, final: bool = True, reserved: int = 0) -> bytes:
    """A frame as servers send it."""
    return frame(kind, data, final=final, reserved=reserved, masked=False)


GOODBYE = plain(CLOSE, b"\x03\xe8")


def listen(proxy: Proxy, host: str = SOCKETS, *extra: str) -> list[Frame]:
    """Open a WebSocket and take all that comes."""
    with proxy.tunnel(host) as line:
        answer = ask_for_websocket(line, host, "/ws", *extra)
        assert answer.status == 101, answer
        found = list(frames(line))
        _answer_goodbye(line)
        return found


def _answer_goodbye(line: Line) -> None:
    line.send(frame(CLOSE, b"\x03\xe8"))


def _told(found: Iterable[Frame]) -> bytes:
    return b"".join(each.data for each in found if each.kind in {TEXT, BINARY, MORE})


def _each_byte(data: bytes, kind: int) -> Iterable[bytes]:
    for at in range(len(data)):
        yield plain(MORE if at else kind, data[at : at + 1], final=at == len(data) - 1)


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "base64": base64.b64encode,
    "base64url, behind a byte": lambda data: base64.urlsafe_b64encode(b"?" + data).rstrip(b"="),
    "hex": lambda data: data.hex().encode(),
    "percent": lambda data: quote(data, safe="").encode(),
    "json": lambda data: json.dumps({"authorization": f"Bearer {data.decode()}"}).encode(),
    "html": lambda data: html.escape(data.decode()).encode(),
    "upper": bytes.upper,
    "lower": bytes.lower,
}


@case("S-75", "a secret in messages, in every form", Harm.LEAKED)
def test_a_secret_in_messages_in_every_form(lab: Lab, proxy: Proxy) -> None:
    def say(secret: bytes) -> Iterable[bytes]:
        for encode in FORMS.values():
            for kind in (TEXT, BINARY):
                yield plain(kind, b"<" + encode(secret) + b">")
        yield plain(TEXT, b"." * 70_000 + secret + b"." * 70_000)
        yield plain(TEXT, secret * 30)
        yield GOODBYE

    serving(lab, SOCKETS, say)
    found = listen(proxy)
    if proxy.name == "egress":
        assert [each.kind for each in found].count(BINARY) >= len(FORMS), "a message is missing"
        assert (found[-1].kind, found[-1].data) == (CLOSE, b"\x03\xe8")


@case("S-75", "a secret in a message of many frames", Harm.LEAKED)
def test_a_secret_in_a_message_of_many_frames(lab: Lab, proxy: Proxy) -> None:
    """Cut at every place, byte by byte, with empty frames and with pings in between."""

    def say(secret: bytes) -> Iterable[bytes]:
        for at in range(1, len(secret)):
            yield plain(TEXT, secret[:at], final=False)
            yield plain(PING, b"hi") if at % 3 else plain(MORE, b"", final=False)
            yield plain(MORE, secret[at:])
        yield from _each_byte(secret, BINARY)
        yield from _each_byte(base64.b64encode(b"a" + secret), TEXT)
        yield plain(TEXT, "\u00fc".encode()[:1] + b"", final=False)
        yield plain(MORE, "\u00fc".encode()[1:] + secret)
        yield GOODBYE

    serving(lab, SOCKETS, say)
    found = listen(proxy)
    # In pieces of frames no detector sees it; put together, it has to.
    if lab.secrets.api.value in _told(found):
        raise Finding(Harm.LEAKED, "the frames hold it, put together")
    if proxy.name == "egress":
        assert len([each for each in found if each.kind == PING]) > 20, "pings are missing"
        assert "\u00fc".encode() in _told(found), "what is no secret is missing"


@case("S-75", "a secret in pings, pongs and goodbyes", Harm.LEAKED)
def test_a_secret_in_pings_pongs_and_goodbyes(lab: Lab, proxy: Proxy) -> None:
    lab_forms = (FORMS["plain"], FORMS["base64"], FORMS["percent"], FORMS["upper"], FORMS["lower"])
    for encode in lab_forms:
        for place in (PING, PONG, CLOSE):

            def say(
                secret: bytes, place: int = place, encode: Callable[[bytes], bytes] = encode
            ) -> Iterable[bytes]:
                data = encode(secret)[:120]
                yield plain(place, (b"\x03\xe8" if place == CLOSE else b"") + data)
                yield plain(PING, b"") if place != CLOSE else b""
                yield GOODBYE if place != CLOSE else b""

            serving(lab, SOCKETS, say)
            found = listen(proxy)
            if proxy.name == "egress":
                assert place in [each.kind for each in found], "it was not passed on at all"
                assert b"***" in next(each.data for each in found if each.kind == place)


@case("S-75", "a secret in the head of the switch", Harm.LEAKED)
def test_a_secret_in_the_head_of_the_switch(lab: Lab, proxy: Proxy) -> None:
    lines = (
        "x-gift: {}",
        "sec-websocket-protocol: {}",
        "server: {}",
        "set-cookie: a={}",
        "location: /{}",
        "via: {}",
    )
    for line in lines:
        serving(lab, SOCKETS, lambda _: [GOODBYE], line)
        listen(proxy)
    serving(lab, SOCKETS, lambda _: [GOODBYE], reason="{}")
    listen(proxy)


@case("S-75", "frames compressed by an extension that nobody has agreed on", Harm.LEAKED)
def test_frames_compressed_by_an_extension(lab: Lab, proxy: Proxy) -> None:
    """Offered by the client, announced by the host, or just done."""
    offers = (
        "permessage-deflate",
        "permessage-deflate; client_max_window_bits",
        "x-webkit-deflate-frame",
        "x-any",
    )

    def say(secret: bytes) -> Iterable[bytes]:
        packer = zlib.compressobj(wbits=-15)
        packed = packer.compress(secret * 4) + packer.flush(zlib.Z_SYNC_FLUSH)
        yield plain(TEXT, packed.removesuffix(b"\0\0\xff\xff"), reserved=4)
        yield plain(BINARY, secret, reserved=1)
        yield plain(TEXT, secret)
        yield GOODBYE

    for offer in offers:
        field = f"sec-websocket-extensions: {offer}"
        for said in ((field,), ()):
            serving(lab, SOCKETS, say, *said)
            with proxy.tunnel(SOCKETS) as line:
                answer = ask_for_websocket(line, SOCKETS, "/ws", field)
                proxy.expects(answer, (403, "response.withheld") if said else (101, ""))
                found = list(frames(line)) if answer.status == 101 else []
                _answer_goodbye(line)
            if any(each.reserved for each in found):
                raise Finding(Harm.LEAKED, "a frame came as an extension has made it")
    if proxy.name == "egress":
        asked = lab.sent(proxy, lab.sockets)
        assert [each.headers("sec-websocket-extensions") for each in asked] == [[]] * len(offers) * 2


BROKEN: dict[str, Frames] = {
    "a mask": lambda secret: [frame(TEXT, secret)],
    "a kind that is not known": lambda secret: [plain(3, secret)],
    "a control that is not known": lambda secret: [plain(11, secret)],
    "a ping in two": lambda secret: [plain(PING, secret[:9], final=False), plain(MORE, secret[9:])],
    "a long ping": lambda secret: [plain(PING, secret * 5)],
    "a long goodbye": lambda secret: [plain(CLOSE, b"\x03\xe8" + secret * 5)],
    "a goodbye of one byte": lambda secret: [plain(CLOSE, b"\x03"), plain(TEXT, secret)],
    "a goodbye with a code that is none": lambda secret: [plain(CLOSE, b"\0\1" + secret)],
    "a goodbye that is no text": lambda secret: [plain(CLOSE, b"\x03\xe8\xff" + secret)],
    "text that is none": lambda secret: [plain(TEXT, b"\xff" + secret)],
    "nothing to go on with": lambda secret: [plain(MORE, secret)],
    "a message in a message": lambda secret: [plain(TEXT, b"a", final=False), plain(TEXT, secret)],
    "reserved bits": lambda secret: [plain(TEXT, secret, reserved=7)],
    "a length that is too long": lambda secret: [b"\x81\x7f" + b"\xff" * 8 + secret],
    "a length in more bytes than needed": lambda secret: [b"\x81\x7e\0" + bytes([len(secret)]) + secret],
    "a length in eight bytes": lambda secret: [b"\x81\x7f" + bytes(7) + bytes([len(secret)]) + secret],
    "no frame": lambda secret: [b"HTTP/1.1 200 OK\r\nx: " + secret + b"\r\n\r\n"],
    "frames behind the goodbye": lambda secret: [GOODBYE, plain(TEXT, secret), plain(PING, secret)],
    "bytes behind the goodbye": lambda secret: [GOODBYE + secret],
    "half a frame": lambda secret: [plain(TEXT, secret + b"." * 99)[:-9]],
}


@case("S-75", "frames that are none", Harm.LEAKED)
def test_frames_that_are_none(lab: Lab, proxy: Proxy) -> None:
    for said in BROKEN.values():

        def say(secret: bytes, said: Frames = said) -> Iterable[bytes]:
            yield from said(secret)
            # Who forgives it gets to see the next one.
            yield plain(TEXT, secret) + GOODBYE

        serving(lab, SOCKETS, say, stays=False)
        with proxy.tunnel(SOCKETS) as line:
            assert ask_for_websocket(line, SOCKETS).status == 101
            line.everything()


@case("S-75", "a WebSocket where a secret that comes back ends it", Harm.LEAKED)
def test_a_websocket_where_a_secret_that_comes_back_ends_it(lab: Lab, proxy: Proxy) -> None:
    """`scrub: block`: nothing of the frame with it arrives, and nothing after it."""
    places: tuple[Frames, ...] = (
        lambda secret: [plain(TEXT, b"<" + secret + b">")],
        lambda secret: [plain(PING, secret)],
        lambda secret: [plain(CLOSE, b"\x03\xe8" + secret)],
        lambda secret: list(_each_byte(secret, BINARY)),
        lambda secret: [plain(TEXT, base64.b64encode(secret))],
    )
    for said in places:

        def say(secret: bytes, said: Frames = said) -> Iterable[bytes]:
            yield plain(TEXT, b"begin")
            yield from said(secret)
            yield plain(TEXT, b"and on") + GOODBYE

        serving(lab, WALL, say)
        found = listen(proxy, WALL)
        if lab.secrets.other.value in _told(found) or (proxy.name == "egress" and b"and on" in _told(found)):
            raise Finding(Harm.LEAKED, f"it went on: {found}")
        if proxy.name == "egress":
            assert found[-1].kind == CLOSE, "it does not end with a goodbye"
    serving(lab, WALL, lambda _: [GOODBYE], "x-gift: {}")
    with proxy.tunnel(WALL) as line:
        proxy.expects(ask_for_websocket(line, WALL), (403, "response.withheld"))


# What goes up -----------------------------------------------------------------------------------


@case("S-25", "frames of the client that are none", Harm.SENT)
def test_frames_of_the_client_that_are_none(lab: Lab, proxy: Proxy) -> None:
    """What a host gets are frames as we write them: nothing of a broken one, or of what is behind it."""
    shapes = {
        "without a mask": frame(TEXT, b"M4RK", masked=False),
        "with reserved bits": frame(TEXT, b"M4RK", reserved=4),
        "of no kind": frame(5, b"M4RK"),
        "a long ping": frame(PING, b"M4RK" * 40),
        "no text": frame(TEXT, b"\xff") + frame(TEXT, b"M4RK"),
        "nothing to go on with": frame(MORE, b"M4RK"),
        "a request": b"GET /M4RK HTTP/1.1\r\nhost: x\r\n\r\n",
        "behind the goodbye": frame(CLOSE, b"\x03\xe8") + frame(TEXT, b"M4RK"),
    }

    async def hear(visit: UpstreamRequest) -> None:
        visit.over = True
        accept = generate_accept_token((visit.request.header("sec-websocket-key") or NONCE).encode())
        lines = [
            "HTTP/1.1 101 Go",
            "upgrade: websocket",
            "connection: upgrade",
            f"sec-websocket-accept: {accept.decode()}",
        ]
        await visit.channel.send("\r\n".join([*lines, "", ""]).encode())
        await visit.channel.some()
        await visit.channel.close()

    lab.sockets.handle("/ws", hear)
    plainly = b"M4RK"
    for data in shapes.values():
        with proxy.tunnel(SOCKETS) as line:
            assert ask_for_websocket(line, SOCKETS).status == 101
            line.send(data).everything()
    # Masked anew, so nothing of a shape stands in what the host has heard byte for byte.
    heard = lab.wait(
        proxy, lambda: lab.heard(proxy, SOCKETS) if _count(lab, proxy, shapes) == len(shapes) else b""
    )
    if (
        heard
        or any(data in lab.heard(proxy, SOCKETS) for data in shapes.values())
        or plainly in lab.heard(proxy, SOCKETS)
    ):
        raise Finding(Harm.SENT, "a broken frame was passed on as it came")


def _count(lab: Lab, proxy: Proxy, shapes: dict[str, bytes]) -> int:
    heard = lab.heard(proxy, SOCKETS)
    return len([data for data in shapes.values() if data in heard])


@case("S-25", "frames sent ahead of the switch", Harm.SENT)
def test_frames_sent_ahead_of_the_switch(lab: Lab, proxy: Proxy) -> None:
    """A host that declines must not find them behind the request."""

    async def decline(visit: UpstreamRequest) -> None:
        await visit.answer(b"no\n", status="426 Upgrade Required")

    lab.sockets.handle("/ws", decline)
    behind = {"a frame": frame(TEXT, MARK), "anything": b"raw " + MARK + b"\r\n\r\n"}
    for data in behind.values():
        tell(proxy, SOCKETS, opening(SOCKETS, "/ws", *ASKING).replace(MARK, b"-") + data)
    if found := arrived(lab, proxy, SOCKETS, behind):
        raise Finding(Harm.SENT, f"the host was sent what is behind the request: {found}")
