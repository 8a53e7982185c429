"""HTTP and WebSocket as they should be, and as they should not: requests, answers, frames.

Each request carries its mark, `/c<case>-<number>`, in its path, by which it is found again in the records of
the proxy and at the host.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.attack.lab.names import API, EVIL
from tests.attack.test_websocket import ASK
from tests.faults.seeded_random import SeededRandom
from tests.fuzz import mutate
from tests.fuzz.frames import STREAM, Field, H2Frame, WsFrame
from tests.fuzz.sample import FORMS, FRAMINGS, PROMISED, Reply

METHODS: Final = ("GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
ODD_METHODS: Final = (
    "get", "TRACE", "CONNECT", "PRI", "M" * 33, "G(T", "DEBUG", "PROPFIND", "POST\t", "GET /x", "",
)  # fmt: skip
BENIGN: Final = (
    b"accept: */*", b"accept-encoding: gzip, br", b"user-agent: git/2", b"x-a: b", b"x-a: \xe9",
    b"cookie: a=b; c=d", b"authorization: Bearer mine", b"x-api-key: mine", b"range: bytes=0-5",
    b"content-type: application/json", b"content-type: application/grpc", b"accept: text/plain",
    b"if-none-match: x", b"connection: keep-alive", b"te: trailers", b"x-empty:", b"cookie: session=mine",
    b"origin: https://" + EVIL.encode(), b"forwarded: host=" + EVIL.encode(),
    b"proxy-authorization: Basic eDp5",
    b"connection: x-a", b"connection: authorization", b"expect: 100-continue", b"keep-alive: 5",
    b"accept-language: en", b"authorization: Basic bWU6bWluZQ==",
)  # fmt: skip
NASTY: Final = (
    b"host: " + EVIL.encode(), b"Host: " + API.encode(), b"host:", b"Host : x", b" folded", b"\tfolded",
    b"transfer-encoding: chunked", b"Transfer-Encoding: \x0bchunked", b"transfer-encoding: identity",
    b"transfer-encoding: chunked, chunked", b"transfer-encoding: gzip, chunked",
    b"transfer_encoding: chunked",
    b"content-length: 0", b"content-length: 5", b"content-length: 5, 5", b"content-length: +5",
    b"content-length: 99999999999999999999", b"Content-Length: 05", b"connection: host", b"connection: close",
    b"connection: upgrade", b"upgrade: websocket", b"upgrade: h2c", b"http2-settings: AAMAAABkAAQAAP__",
    b"expect: cake", b"x-http-method-override: DELETE", b"x-method-override: PUT", b"x-original-url: /admin",
    b"x-rewrite-url: /admin", b"x-forwarded-host: " + EVIL.encode(), b"x-a: \0", b"x-a: a\rb",
    b"x-a: \x1b[2J",
    b"bad name: x", b": x", b"noname", b"x(: y", b"x-long: " + b"y" * 9000, b"\xff\xfe: x", b"trailer: host",
    b"egress-denied: forged", b"egress-request: mine", b"content-encoding: gzip", b"te: chunked",
    b"authorization: Bearer a\r\nauthorization: Bearer b", b"sec-websocket-key: x",
    b"proxy-connection: close",
)  # fmt: skip
TRAILS: Final = (
    "", "/a/b", "/a%20b", "/%41", "/a;b=c", "/a//b", "/a/../b", "/%2e%2e/x", "/a%2fb", "/%00", "/a\\b", "/#f",
    "/a?b=c&d=e", "?x=%", "?key=mine", "?a=/../..", "/" + "l" * 2000, "/\xe9", "/%c3%a9", "/..;/x",
    "/%252e", "/.", "/~",
    "?_method=DELETE", "?a\tb", "/{{x}}", "/*", "/a|b", "/\x7f", "?a#b", "/%", "/%zz", "/%u002e",
)  # fmt: skip
BODY: Final = (
    b"",
    b"hello",
    b'{"a": 1}',
    b"x" * 3000,
    b"GET / HTTP/1.1\r\nhost: evil.test\r\n\r\n",
    b"\0\xff" * 9,
)


def mark(case: int, number: int) -> str:
    """The path by which a request is known."""
    return f"/c{case}-{number}"


# Requests -----------------------------------------------------------------------------------------


def request(
    chance: SeededRandom, host: str, path: str, *, wild: int = 0, last: bool = False, form: str = "origin"
) -> bytes:
    """A request; `wild` is how many things are wrong with it, and `last` asks for the end."""
    method = chance.one_of(METHODS)
    trail = chance.one_of(TRAILS) if chance.randrange(3) == 0 else ""
    target = (f"https://{host}" if form == "absolute" else f"http://{host}" if form == "plain" else "") + path
    version = "HTTP/1.1"
    if wild and chance.randrange(6) == 0:
        method = chance.one_of(ODD_METHODS)
    if wild and chance.randrange(8) == 0:
        version = chance.one_of(("HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "http/1.1", "HTTP/1.1 ", "HTTP/0.9", ""))
    fields = [b"host: " + host.encode(), *chance.sample(BENIGN, chance.randrange(4))]
    framing, body = _body(chance, method)
    fields += framing
    if last:
        fields.append(b"connection: close")
    lines = [f"{method} {target}{trail} {version}".encode("latin-1"), *fields]
    return _damaged(chance, lines, body, wild)


def _body(chance: SeededRandom, method: str) -> tuple[list[bytes], bytes]:
    if method in ("GET", "HEAD", "DELETE", "OPTIONS") and chance.randrange(8):
        return [], b""
    body = chance.one_of(BODY)
    if chance.randrange(2):
        return [b"content-length: %d" % len(body)], body
    size = chance.one_of((1, 5, 4000))
    size = max(size, len(body) // 40 + 1)
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    line = chance.one_of((b"%x\r\n", b"%x\r\n", b"%X;a=b\r\n", b"%04x\r\n"))
    trailer = chance.one_of((b"", b"", b"x-t: 1\r\n", b"host: evil.test\r\n", b"x-t : 1\r\n"))
    chunks = b"".join(line % len(part) + part + b"\r\n" for part in parts)
    return [b"transfer-encoding: chunked"], chunks + b"0\r\n" + trailer + b"\r\n"


def _damaged(chance: SeededRandom, lines: list[bytes], body: bytes, wild: int) -> bytes:
    bytewise = 0
    for _ in range(wild):
        match chance.randrange(6):
            case 0 | 1:
                lines = mutate.rows(chance, lines, NASTY)
            case 2:
                lines.insert(chance.randrange(len(lines) or 1) + 1, chance.one_of(NASTY))
            case 3 if lines:
                at = chance.randrange(len(lines))
                lines[at] = mutate.names(chance, lines[at])
            case 4:
                body = mutate.scratch(chance, body)
            case _:
                bytewise += 1
    data = b"\r\n".join([*lines, b"", b""]) + body
    return mutate.scratch(chance, data, bytewise)


# Answers ------------------------------------------------------------------------------------------

STATUS_LINES: Final = (
    b"HTTP/1.1 204 None", b"HTTP/1.1 304 Same", b"HTTP/1.1 404 Not", b"HTTP/1.1 500 {{plain}}",
    b"HTTP/1.1 302 Found", b"HTTP/1.1 401 Who", b"HTTP/1.1 206 Part", b"HTTP/1.0 200 OK", b"HTTP/1.1 200",
    b"HTTP/1.1 407 Proxy", b"HTTP/1.1 101 Switching", b"HTTP/1.1 599 X",
)  # fmt: skip
ODD_STATUS_LINES: Final = (
    b"HTTP/1.2 200 OK", b"HTTP/2 200", b"{{plain}} 200 OK", b"HTTP/1.1 {{plain}}", b"HTTP/1.1 2000 OK",
    b"HTTP/1.1 099 OK", b"HTTP/1.1  200 OK", b"ICY 200 OK", b"\r\nHTTP/1.1 200 OK", b"HTTP/1.1 200 \0", b"",
    b"HTTP/1.1 -20 OK", b"HTTP/1.1 100 Go on", b"HTTP/1.1 200 OK\nx: {{plain}}", b"HTTP/1.1 600 OK",
    b"SSH-2.0-x", b"\x15\x03\x03\0\2\2\x28",
)  # fmt: skip
GIVEN_FIELDS: Final = (
    b"x-gift: {{plain}}", b"x-gift: {{base64}}", b"x-{{hex}}: gift", b"set-cookie: a={{plain}}; Path=/",
    b"location: https://evil.test/?{{percent}}", b"refresh: 0;url=https://evil.test/{{hex}}",
    b"link: <https://evil.test/{{base64url}}>; rel=next", b"content-location: /{{percent}}",
    b"www-authenticate: Bearer realm={{HEX}}", b'etag: "{{plain}}"', b'alt-svc: h3=":443"',
    b"content-disposition: attachment; filename={{upper}}", b"x-two: a\r\nx-two: {{plain}}",
    b"content-type: text/html; charset=utf-7", b"content-type: text/plain; charset=utf-16",
)  # fmt: skip
PLAIN_FIELDS: Final = (
    b"content-type: text/plain", b"content-type: application/json", b"cache-control: no-store", b"x-a: b",
    b"x-a: \xe9", b"set-cookie: a=b", b"location: /next", b"connection: keep-alive", b"date: now", b"vary: *",
    b"trailer: x-gift", b"content-range: bytes 0-5/6", b"egress-denied: forged", b"egress-request: forged",
)  # fmt: skip
ODD_FIELDS: Final = (
    b"content-length: 5", b"content-length: 99999999999999999999", b"content-length: {{plain}}",
    b"transfer-encoding: chunked", b"transfer-encoding: {{plain}}", b"transfer-encoding: gzip, chunked",
    b"content-encoding: gzip", b"content-encoding: {{plain}}", b"content-encoding: identity, br",
    b"connection: close", b"connection: upgrade", b"upgrade: h2c", b" {{plain}}", b"{{plain}}",
    b"x: \0{{plain}}",
    b"x : y", b": y", b"x-long: " + b"y" * 9000, b"x: a\rb",
    b"content-type: multipart/byteranges; boundary=x",
    b"connection: {{plain}}", b"keep-alive: {{plain}}", b"trailer: content-length",
    b"proxy-authenticate: Basic",
)  # fmt: skip
INTERIM: Final = (
    b"HTTP/1.1 103 Early Hints\r\nlink: <{{plain}}>\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 102 Processing\r\n\r\n", b"HTTP/1.1 103 x\r\n\r\n" * 3, b"HTTP/1.1 199 {{base64}}\r\n\r\n",
    b"HTTP/1.1 103 x\r\ncontent-length: 5\r\n\r\n", b"HTTP/1.1 103 x\r\n\r\n" * 30,
)  # fmt: skip


def reply(chance: SeededRandom, wild: int = 0) -> Reply:
    """An answer; with `wild`, one with as many things wrong."""
    start = chance.one_of(STATUS_LINES) if chance.randrange(6) == 0 else b"HTTP/1.1 200 OK"
    fields = chance.sample(PLAIN_FIELDS, chance.randrange(4))
    if chance.randrange(4) == 0:
        fields.append(chance.one_of(GIVEN_FIELDS))
    parts = tuple(_part(chance) for _ in range(chance.randrange(4)))
    framing = chance.one_of(("length", "chunked", "length", "chunked", "extended"))
    coding = chance.one_of(("gzip", "br", "zstd", "deflate")) if chance.randrange(6) == 0 else ""
    tail = b"x-gift: {{plain}}\r\n" if framing != "length" and chance.randrange(5) == 0 else b""
    ends = "open"
    lines = [start, *fields]
    bytewise = 0
    for _ in range(wild):
        match chance.randrange(8):
            case 0:
                lines[:1] = [chance.one_of(ODD_STATUS_LINES)]
            case 1 | 2:
                lines = mutate.rows(chance, lines, ODD_FIELDS)
            case 3:
                lines.append(chance.one_of(ODD_FIELDS))
            case 4:
                framing = chance.one_of(FRAMINGS)
            case 5:
                coding = chance.one_of(("gzip, gzip", "x-unknown", "GZIP", "bz2", "identity"))
            case 6:
                tail = chance.one_of(
                    (b"HTTP/1.1 200 OK\r\nx: {{plain}}\r\n\r\n", b"\0", b"host: x\r\n", b"x:")
                )
            case _:
                bytewise += 1
        # A host that is wrong and does not hang up may be waited for, and rightly.
        ends = chance.one_of(("close", "close", "cut", "reset"))
    head = mutate.scratch(chance, b"".join(line + b"\r\n" for line in lines or [b""]), bytewise)
    if chance.randrange(12) == 0:
        head = chance.one_of(INTERIM) + head
    write = chance.one_of((0, 0, 0, 1, 7, 100))
    return Reply(head, parts, framing, coding, tail, write, ends)


def _part(chance: SeededRandom) -> bytes:
    if chance.randrange(2):
        return chance.one_of((b"hello ", b"." * 500, b'{"a": "b"}', b"\0\xff\x80", b"data: 1\n\n", b"<p>"))
    form = chance.one_of(PROMISED if chance.randrange(3) else FORMS)
    return b"got " + b"{{%s}}" % form.encode() + b" here "


# WebSocket ----------------------------------------------------------------------------------------

UPGRADE: Final = tuple(line.encode() for line in ASK)


def upgrade(chance: SeededRandom, host: str, path: str, wild: int = 0) -> bytes:
    """A request to become a WebSocket."""
    lines = [f"GET {path} HTTP/1.1".encode(), b"host: " + host.encode(), *UPGRADE]
    return _damaged(chance, lines, b"", wild)


def ws_frames(chance: SeededRandom, *, masked: bool, wild: int) -> list[WsFrame]:
    """A talk of one side; that of a host shows its credential."""
    made: list[WsFrame] = []
    for _ in range(chance.randrange(1, 6)):
        text = b"hi \xc3\xa9 there" if masked else chance.one_of((b"hello", b"x {{plain}} y", b"{{base64}}"))
        frame = WsFrame(chance.one_of((1, 1, 2, 9, 10)), text)
        if chance.randrange(3) == 0:
            made += [WsFrame(1, text, final=False), WsFrame(0, b" and more")]
        else:
            made.append(frame)
    for _ in range(wild):
        at = chance.randrange(len(made))
        made[at] = _odd_frame(chance, made[at])
        made = mutate.rows(chance, made, made) or [WsFrame(8)]
    return [*made, WsFrame(8, b"\x03\xe8")]


def _odd_frame(chance: SeededRandom, frame: WsFrame) -> WsFrame:
    match chance.randrange(7):
        case 0:
            return replace(frame, kind=chance.randrange(16))
        case 1:
            return replace(frame, final=not frame.final)
        case 2:
            return replace(frame, reserved=chance.randrange(1, 8))
        case 3:
            return replace(frame, size=chance.one_of((0, 1, 126, 70000, 1 << 62)))
        case 4:
            more = chance.one_of((b"\xff\xfe", b"x" * 200, b"\xc3", b"y" * 70000))
            return replace(frame, data=frame.data + more)
        case 5:
            said = chance.one_of((b"", b"\x03", b"\x03\xe8bye", b"\x03\xed", b"\xff\xff\xff"))
            return WsFrame(8, said)
        case _:
            return frame


# HTTP/2 -------------------------------------------------------------------------------------------

H2_ODD_FIELDS: Final = (
    (b":method", b"DELETE /x?a="), (b":path", b"/ HTTP/1.1\r\nhost: evil.test"), (b":path", b""),
    (b":authority", EVIL.encode()), (b":scheme", b"http"), (b":protocol", b"websocket"), (b":status", b"200"),
    (b"host", EVIL.encode()), (b"connection", b"close"), (b"transfer-encoding", b"chunked"), (b"te", b"gzip"),
    (b"content-length", b"5"), (b"content-length", b"x"), (b"X-Upper", b"a"), (b"x-a", b"a\r\nb: c"),
    (b"x-a", b"\0"), (b"", b"x"), (b"x a", b"y"), (b"x-long", b"y" * 20000), (b"cookie", b"a=b"),
    (b"upgrade", b"h2c"),
    (b"authorization", b"Bearer mine"), (b"expect", b"100-continue"), (b":path", b"*"), (b":path",
    b"//evil.test/"),
    (b"x-http-method-override", b"PUT"), (b"trailer", b"host"), (b":odd", b"x"), (b"keep-alive", b"5"),
    (b"egress-denied", b"forged"), (b"x-a", b" b "), (b"proxy-authorization", b"Basic eDp5"),
)  # fmt: skip
H2_GIVEN: Final = (
    (b"x-gift", b"{{plain}}"), (b"x-{{hex}}", b"y"), (b"set-cookie", b"a={{plain}}"), (b"content-type",
    b"text/plain"),
    (b"location", b"https://evil.test/{{percent}}"), (b"grpc-status", b"0"), (b"grpc-message",
    b"{{percent}}"),
)  # fmt: skip
SETTINGS: Final = (
    b"", b"\0\4\0\1\0\0", b"\0\4\x80\0\0\0", b"\0\5\0\0\0\1", b"\0\1\0\0\0\0", b"\0\2\0\0\0\2",
    b"\0\3\0\0\0\0",
    b"\0\x08\0\0\0\1", b"\0\4\0\0\0\0", b"\0\4\0", b"\0\6\0\0\0\1", b"\0\1\xff\xff\xff\xff",
)  # fmt: skip
DATA, HEADERS, PRIORITY, RST, SETTINGS_FRAME, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END, PADDED, HEADERS_END = 1, 8, 4


def h2_requests(chance: SeededRandom, host: str, paths: list[str], wild: int) -> list[H2Frame]:
    """What a client sends behind the preface: one stream a path."""
    made = [H2Frame(SETTINGS_FRAME, 0, 0, chance.one_of(SETTINGS if wild else SETTINGS[:2]))]
    for number, path in enumerate(paths):
        stream = 2 * number + 1
        method = chance.one_of(METHODS)
        fields = [
            (b":method", method.encode()), (b":scheme", b"https"), (b":authority", host.encode()),
            (b":path", path.encode()),
        ]  # fmt: skip
        fields += [_field(line) for line in chance.sample(BENIGN, chance.randrange(3)) if _is_fit(line)]
        body = chance.one_of(BODY) if chance.randrange(3) == 0 else b""
        if body and chance.randrange(2):
            fields.append((b"content-length", b"%d" % len(body)))
        if wild and chance.randrange(3) == 0:
            fields = mutate.rows(chance, fields, H2_ODD_FIELDS, chance.one_of((1, 1, 2)))
        made += _message(chance, stream, fields, body)
    return _odd_frames(chance, made, wild)


def h2_answer(chance: SeededRandom, wild: int) -> list[H2Frame]:
    """What a host answers on one stream, which is the one of the request: 0 here stands for it."""
    made: list[H2Frame] = []
    if chance.randrange(8) == 0:
        made += [fields_frame(STREAM, [(b":status", b"103"), (b"link", b"<{{plain}}>")])]
    fields = [(b":status", chance.one_of((b"200", b"200", b"404", b"302", b"204", b"500")))]
    fields += chance.sample(H2_GIVEN, chance.randrange(3))
    if wild and chance.randrange(2):
        fields = mutate.rows(chance, fields, H2_ODD_FIELDS, chance.one_of((1, 2)))
    body = b"".join(_part(chance) for _ in range(chance.randrange(3)))
    made += _message(chance, STREAM, fields, body)
    return _odd_frames(chance, made, wild)


def _message(chance: SeededRandom, stream: int, fields: list[Field], body: bytes) -> list[H2Frame]:
    has_trailers = chance.randrange(6) == 0
    made = [fields_frame(stream, fields, END if not body and not has_trailers else 0)]
    if body:
        made.append(H2Frame(DATA, 0 if has_trailers else END, stream, body))
    if has_trailers:
        made.append(fields_frame(stream, [(b"x-gift", b"{{plain}}"), (b"x-t", b"1")], END))
    return made


STRAY: Final = (
    H2Frame(PING, 0, 0, b"12345678"), H2Frame(PING, 1, 0, b"12345678"), H2Frame(PING, 0, 0, b"1"),
    H2Frame(WINDOW, 0, 0, b"\0\0\0\1"), H2Frame(WINDOW, 0, 0, b"\0\0\0\0"), H2Frame(WINDOW, 0, 1,
    b"\x7f\xff\xff\xff"),
    H2Frame(RST, 0, 1, b"\0\0\0\x08"), H2Frame(RST, 0, 9, b"\0\0\0\0"), H2Frame(RST, 0, 1, b"\0"),
    H2Frame(GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\0"), H2Frame(GOAWAY, 0, 0, b"\x7f\xff\xff\xff\0\0\0\2{{plain}}"),
    H2Frame(PRIORITY, 0, 1, b"\0\0\0\1\x10"), H2Frame(PUSH, 4, 1, b"\0\0\0\2\x82\x84\x87"), H2Frame(77, 255,
    1, b"ext"),
    H2Frame(CONTINUATION, 4, 1, b"\x82"), H2Frame(DATA, 1, 1, b"late"), H2Frame(DATA, 8, 1, b"\xffpad"),
    H2Frame(HEADERS, 5, 1, b"\xff\xff\xff\xff\xff"), H2Frame(HEADERS, 5, 3, b"\x20\xbf"), H2Frame(HEADERS,
    1, 1, b"\x82"),
    H2Frame(SETTINGS_FRAME, 1, 0, b""), H2Frame(SETTINGS_FRAME, 1, 0, b"x"), H2Frame(DATA, 0, 0, b"nobody's"),
    *(H2Frame(SETTINGS_FRAME, 0, 0, each) for each in SETTINGS),
)  # fmt: skip


def _odd_frames(chance: SeededRandom, made: list[H2Frame], wild: int) -> list[H2Frame]:
    for _ in range(wild):
        match chance.randrange(6):
            case 0 | 1:
                made = mutate.rows(chance, made, STRAY)
            case 2:
                made.insert(chance.randrange(len(made) + 1), chance.one_of(STRAY))
            case 3 if made:
                at = chance.randrange(len(made))
                made[at] = _odd_h2_frame(chance, made[at])
            case _:
                pass
    return made


def _odd_h2_frame(chance: SeededRandom, frame: H2Frame) -> H2Frame:
    match chance.randrange(5):
        case 0:
            return replace(frame, flags=frame.flags ^ 1 << chance.randrange(8))
        case 1:
            return replace(frame, stream=chance.one_of((0, 1, 2, 3, 99, 0x7FFFFFFF)))
        case 2:
            return replace(frame, size=chance.one_of((0, 1, 16384, 16385, 1 << 24 - 1)))
        case 3:
            return replace(frame, kind=chance.randrange(12), is_fields=False)
        case _ if not frame.is_fields:
            return replace(frame, data=mutate.scratch(chance, frame.data))
        case _:
            return frame


def fields_frame(stream: int, fields: list[Field], flags: int = 0) -> H2Frame:
    """A HEADERS frame with all of the block."""
    data = b"\x1e".join(name + b"\x1f" + value for name, value in fields)
    return H2Frame(HEADERS, flags | HEADERS_END, stream, data, is_fields=True)


def _field(line: bytes) -> Field:
    name, _, value = line.partition(b":")
    return name, value.strip()


def _is_fit(line: bytes) -> bool:
    """Whether a field may stand in HTTP/2 as it is."""
    return not line.startswith((b"connection", b"te:", b"keep-alive", b"proxy", b"expect"))
