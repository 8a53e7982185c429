"""Where a message ends, and what it says: spellings that two parsers read in two ways, up and down.

Nothing of a message that is refused may come to the host, and nothing that stands behind one may be taken
for a part of it.
"""

from __future__ import annotations

import pytest

from tests.attack.lab.attack_spellings import MARK, in_turn, try_all
from tests.attack.lab.cases import case
from tests.attack.lab.client import request
from tests.attack.lab.harm import Finding, Harm
from tests.attack.lab.hostile_handlers import credential
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import API, EVIL, OTHER, SCOPED
from tests.attack.lab.proxies import Proxy
from tests.proxy.lab.http1 import Request
from tests.proxy.lab.upstream_request import UpstreamRequest
from tests.proxy.serve_process import until

pytestmark = pytest.mark.system("ip", "iproute2")

READ = "/repos/acme/app"
ISSUES = "/repos/acme/app/issues"
HIDDEN = b"DELETE /repos/acme/M4RK HTTP/1.1\r\nhost: %b\r\n\r\n" % SCOPED.encode()
CHUNKED = "transfer-encoding: chunked"
LAST = b"0\r\n\r\n"

# What is refused has this code, and the status that HTTP has for its kind.
MALFORMED = tuple((status, "request.malformed") for status in (400, 414, 417, 431, 501, 505))


def post(*lines: str | bytes, body: bytes = b"") -> bytes:
    """An issue that the rules allow, with more lines in its head, which may hold any bytes."""
    start = b"POST %b HTTP/1.1\r\nhost: %b\r\n" % (ISSUES.encode(), SCOPED.encode())
    fields = [b"content-type: application/json", b"x-mark: " + MARK]
    fields += [line.encode("latin-1") if isinstance(line, str) else line for line in lines]
    return start + b"\r\n".join(fields) + b"\r\n\r\n" + body


def get(line: bytes, *lines: bytes) -> bytes:
    """A request that begins with this line."""
    return b"\r\n".join([line, b"host: " + SCOPED.encode(), b"x-mark: " + MARK, *lines, b"", b""])


# How long it is ---------------------------------------------------------------------------------

LENGTHS = [
    *b"+4 -4 04 004 0x4 4,4 4;5 4_0 4. 4.0 4e0 4h 00 00000000000000004 99999999999999999999 4,".split(),
    *(b"\xd9\xa4", b"\xb2"),
    *(b"", b",", b"4, 4", b"4 4", b"4\t4", b"\x0b4", b"4\x0c", b'"4"', b"four", b"18446744073709551620"),
    *(b"4\r\ncontent-length: 4", b"4\r\nContent-Length: 5", b"5\r\ncontent-length: 4", b"4\r\n ,5"),
]


@case("S-23", "lengths that are no plain number, or two", Harm.SENT)
def test_lengths_that_are_no_plain_number(lab: Lab, proxy: Proxy) -> None:
    shapes = {repr(value): post(b"content-length: " + value, body=b"abcdefgh") for value in LENGTHS}
    if arrived := try_all(lab, proxy, SCOPED, shapes, *MALFORMED):
        raise Finding(Harm.SENT, f"passed on: {arrived}")


CODINGS = (
    *("xchunked", "chunkedx", "chunked, identity", "identity, chunked", "chunked, chunked", "gzip, chunked"),
    *(
        "chunked, gzip",
        "identity",
        "gzip",
        "deflate",
        "trailers",
        "cow",
        '"chunked"',
        "'chunked'",
        "chunked;",
    ),
    *("chunked;q=1", "chunked; a=b", ", chunked", "chunked,", "chun\tked", "chu nked", "\x0bchunked"),
    *("\x0cchunked", "chunked\x00", "\x00chunked", "chunked\x0b", "\xa0chunked", "chunked\xa0", "ch\xfcnked"),
    *("chunked\r\nTransfer-Encoding: chunked", "identity\r\ntransfer-encoding: chunked", "\r\n chunked", ""),
    *("chunked\r\n\t", "x\r\ntransfer-encoding: chunked", "chunked\r\ntransfer-encoding: x", "chunked\rX: y"),
)
NAMES = (
    *("transfer-encoding ", "transfer-encoding\t", "transfer_encoding", "Transfer_Encoding"),
    *("transfer.encoding", "transfer!encoding", "transfer~encoding", "transfer-encoding\x00", "transfer\x00"),
    *("\x0btransfer-encoding", "x: y\r\n transfer-encoding", "x: y\r\n\ttransfer-encoding"),
    *("x: y\ntransfer-encoding", "x: y\rtransfer-encoding", "\xa0transfer-encoding", "content_length"),
    *("content-length ", "content.length", "Content_Length", "transfer-encoding \t", "transf\xe9r-encoding"),
)


@case("S-23", "codings that one parser takes for chunked and the next does not", Harm.SENT)
def test_codings_that_one_takes_for_chunked(lab: Lab, proxy: Proxy) -> None:
    body = LAST + HIDDEN
    shapes = {repr(value): post(f"transfer-encoding: {value}", body=body) for value in CODINGS}
    shapes |= {repr(name): post(f"{name}: chunked", body=body) for name in NAMES}
    if arrived := try_all(lab, proxy, SCOPED, shapes, *MALFORMED):
        raise Finding(Harm.SENT, f"passed on: {arrived}")


@case("S-23", "a length and a coding in one head", Harm.SENT)
def test_a_length_and_a_coding_in_one_head(lab: Lab, proxy: Proxy) -> None:
    """In either order, in any case, on one side of a line that only some parsers see."""
    length, hidden = f"content-length: {len(HIDDEN) + 5}", LAST + HIDDEN
    old = post(CHUNKED, body=hidden).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    shapes = {
        "the length first": post(length, CHUNKED, body=hidden),
        "the coding first": post(CHUNKED, length, body=hidden),
        "zero": post("content-length: 0", CHUNKED, body=hidden),
        "in capitals": post("CONTENT-LENGTH: 5", "TRANSFER-ENCODING: CHUNKED", body=hidden),
        "a small length": post("content-length: 4", CHUNKED, body=b"5c\r\n" + HIDDEN + b"\r\n" + LAST),
        "far apart": post(length, *[f"x-{n}: y" for n in range(50)], CHUNKED, body=hidden),
        "nominated": post("connection: content-length", length, CHUNKED, body=hidden),
        "nominated, without a coding": post("connection: close, Content-Length", length, body=hidden),
        "HTTP/1.0 with chunks": old,
        "HTTP/1.0 with both": post(CHUNKED, length, body=hidden).replace(b"/1.1", b"/1.0", 1),
    }
    if arrived := try_all(lab, proxy, SCOPED, shapes, *MALFORMED):
        raise Finding(Harm.SENT, f"passed on: {arrived}")


# Chunks -----------------------------------------------------------------------------------------

CHUNKS = (
    *(b"0x4\r\nabcd", b"+4\r\nabcd", b"-4\r\nabcd", b"4 \r\nabcd", b" 4\r\nabcd", b"\t4\r\nabcd"),
    *(b"4_0\r\nabcd", b"g\r\nabcd", b"\r\nabcd", b"00000000000000004\r\nabcd", b"4,4\r\nabcd", b"4.\r\nabcd"),
    *(b"fffffffffffffffff\r\nabcd", b"10000000000000004\r\nabcd", b"4\nabcd", b"4\rabcd", b"4\r\r\nabcd"),
    *(b"4\r\nabcdX", b"4\r\nabc", b"4\r\nabcd\n", b"4\r\nabcd\n\r", b"4\r\nabcde", b"\xd9\xa4\r\nabcd"),
    *(b"4;a\nb\r\nabcd", b"4;a\rb\r\nabcd", b"4;a=\x00\r\nabcd", b"4;a=\x7f\r\nabcd", b"4 ;a\r\nabcd"),
    *(b"4;%b\r\nabcd" % (b"e" * 300), b"4\t;a\r\nabcd", b"4\x0b\r\nabcd", b"4'\r\n"),
)
ENDS = (
    *(
        b"0\r\n\n",
        b"0\n\n",
        b"0\n\r\n",
        b"00000000000000000\r\n\r\n",
        b"0x0\r\n\r\n",
        b"0 \r\n\r\n",
        b"-0\r\n\r\n",
    ),
    *(b"0\r\nauthorization: Bearer mine\r\n\r\n", b"0\r\nhost: evil.test\r\n\r\n", b"0\r\nx : y\r\n\r\n"),
    *(
        b"0\r\ncontent-length: 9\r\n\r\n",
        b"0\r\ntransfer-encoding: chunked\r\n\r\n",
        b"0\r\nno colon\r\n\r\n",
    ),
    *(b"0\r\nx: y\r\n z\r\n\r\n", b"0\r\nx: y\n\r\n", b"0\r\nx: \x00\r\n\r\n", b"0\r\n x: y\r\n\r\n"),
    *(
        b"0\r\nx_y: z\r\ntransfer_encoding: x\r\n\r\n",
        b"0\r\ncookie: session=mine\r\n\r\n",
        b"0\r\nx: y\rz\r\n\r\n",
    ),
    b"0\r\n" + b"x: y\r\n" * 40 + b"\r\n",
)


@case("S-23", "chunks and trailers that two parsers cut in two ways", Harm.SENT)
def test_chunks_that_two_parsers_cut_in_two_ways(lab: Lab, proxy: Proxy) -> None:
    """What stands behind the doubtful place is a request, or a part of the body: it goes nowhere."""
    head = post(CHUNKED).replace(MARK, b"-")
    shapes = {repr(chunk): head + chunk + b"\r\n" + LAST + HIDDEN for chunk in CHUNKS}
    shapes |= {repr(end): head + b"4\r\nabcd\r\n" + end + HIDDEN for end in ENDS}
    if arrived := try_all(lab, proxy, SCOPED, shapes, *MALFORMED):
        raise Finding(Harm.SENT, f"passed on: {arrived}")


@case("S-23", "a body that goes wrong when its head has left", Harm.SENT)
def test_a_body_that_goes_wrong_when_its_head_has_left(lab: Lab, proxy: Proxy) -> None:
    """The host must not take what it has got for whole, and gets nothing of what is behind."""
    shapes = {
        "a size": b"zz\r\nabcd\r\n",
        "a line end": b"4\r\nabcdef\r\n",
        "a trailer": b"4\r\nabcd\r\n0\r\nhost: x\r\n\r\n",
    }
    for name, data in shapes.items():
        mark = f"late-{proxy.name}-{name.replace(' ', '-')}"
        with proxy.tunnel(SCOPED) as line:
            line.send(post(CHUNKED, body=b"5\r\nfirst\r\n").replace(MARK, mark.encode()))
            (sent,) = until(lambda mark=mark: _marked(lab, mark), "the head at the host")  # type: ignore[misc]
            line.send(data + LAST + HIDDEN.replace(MARK, mark.encode()))
            if proxy.name == "naive":
                line.finish()
            proxy.expects(line.response("POST"), (400, "request.malformed"))
        behind = b"DELETE /repos/acme/" + mark.encode()
        if lab.wait(proxy, lambda data=behind: data in lab.heard(proxy, SCOPED)):  # type: ignore[misc]
            raise Finding(Harm.SENT, f"{name}: the host got what stands behind a broken body")
        if sent.complete:
            raise Finding(Harm.SENT, f"{name}: the host took the body for whole")


def _marked(lab: Lab, mark: str) -> list[Request]:
    return [each for each in lab.scoped.requests if each.header("x-mark") == mark]


@case("S-23 S-55", "requests inside of bodies, and behind them", Harm.SENT)
def test_requests_inside_of_bodies_and_behind_them(lab: Lab, proxy: Proxy) -> None:
    """A body is a body whatever it looks like, and what stands behind it is decided on its own."""
    size = len(HIDDEN)
    whole = f"content-length: {size}"
    shapes = {
        "a body": post(whole, body=HIDDEN),
        "a chunk": post(CHUNKED, body=b"%x\r\n%b\r\n" % (size, HIDDEN) + LAST),
        "behind a body": post("content-length: 4", body=b"abcd" + HIDDEN),
        "behind chunks": post(CHUNKED, body=b"4;ext=1\r\nabcd\r\n" + LAST + HIDDEN),
        "behind a request without a body": get(b"GET %b HTTP/1.1" % READ.encode()) + HIDDEN,
        "behind a HEAD": get(b"HEAD %b HTTP/1.1" % READ.encode()) + HIDDEN,
        "behind an empty body": post("content-length: 0", body=HIDDEN),
        "the body of a GET": get(b"GET %b HTTP/1.1" % READ.encode(), whole.encode()) + HIDDEN,
        "the body of a denied request": get(b"PUT %b HTTP/1.1" % READ.encode(), whole.encode()) + HIDDEN,
        "behind a denied request": get(b"PUT %b HTTP/1.1" % READ.encode()) + HIDDEN,
        "behind one that closes": get(b"GET %b HTTP/1.1" % READ.encode(), b"connection: close") + HIDDEN,
        "behind an expectation": post("expect: 100-continue", "content-length: 4", body=b"abcd" + HIDDEN),
    }
    try_all(lab, proxy, SCOPED, shapes)
    if lab.sent(proxy, lab.scoped, lambda each: each.method in {"DELETE", "PUT"}):
        raise Finding(Harm.SENT, "the host was told to delete")


# Lines ------------------------------------------------------------------------------------------

LINES = (
    *(b"x: y\nhidden: 1", b"x: y\rhidden: 1", b"x: y\r\n folded", b"x: y\r\n\tfolded", b"x: y\r\n \r\n z"),
    *(b"x: \x00", b"x\x00: y", b"x: a\x01b", b"x: \x7f", b"x: \x0b", b"x: \x0c", b"x: \x1b[2J", b"x: \x08"),
    *(b"no colon", b": no name", b" x: y", b"x y: z", b"x : y", b"x\t: y", b"(x): y", b"x@y: z", b"x/y: z"),
    *(
        b"\xffx: y",
        b"x\xa0: y",
        b"x: y\n",
        b"\nx: y",
        b"\rx: y",
        b"x: y\r",
        b"x: y\r\r",
        b"[x]: y",
        b'"x": y',
    ),
    *(b"x: y\r\n\n", b"expect: 200-ok", b"expect: 100-continue\r\nexpect: 100-continue", b"connection: a b"),
    *(b"connection: host", b"connection: keep-alive, content-length", b'connection: "close"'),
    *(b"upgrade: a b\r\nconnection: upgrade", b"x: " + b"~" * 70_000),
    *(b"\r\n".join(b"x-%d: y" % n for n in range(200)), b"x: y\x85z\n"),
)


@case("S-23", "lines of a head that two parsers read differently", Harm.SENT)
def test_lines_that_two_parsers_read_differently(lab: Lab, proxy: Proxy) -> None:
    shapes = {repr(line[:40]): get(b"GET %b HTTP/1.1" % READ.encode(), line) for line in LINES}
    if arrived := try_all(lab, proxy, SCOPED, shapes, *MALFORMED):
        raise Finding(Harm.SENT, f"passed on: {arrived}")


STARTS = (
    *("GET  {} HTTP/1.1", "GET {}  HTTP/1.1", "GET {} HTTP/1.1 ", " GET {} HTTP/1.1", "GET\t{}\tHTTP/1.1"),
    *(
        "GET {} x HTTP/1.1",
        "GET {} HTTP/1.1 x",
        "GET {}",
        "GET {} ",
        "GET {} HTTP",
        "GET {} HTTP/",
        "GET {} 1.1",
    ),
    *("GET {} HTTP/1.2", "GET {} HTTP/1.10", "GET {} HTTP/01.1", "GET {} HTTP/1.01", "GET {} HTTP/1,1"),
    *(
        "GET {} HTTP/2",
        "GET {} HTTP/2.0",
        "GET {} HTTP/3",
        "GET {} HTTP/0.9",
        "GET {} HTTP/9.9",
        "GET {} HTTP/-1",
    ),
    *("GET {} http/1.1", "GET {} Http/1.1", "GET {} HTTPS/1.1", "GET {} ICY/1.1", "GET {} HTTP/1.1\x0b"),
    *(
        "GET {} HTTP/1.\u00b9",
        "G\x00ET {} HTTP/1.1",
        "GET {}\x00 HTTP/1.1",
        "GET {}\x0b HTTP/1.1",
        "GET {}#x HTTP/1.1",
    ),
    *(
        "GET {}\x7f HTTP/1.1",
        "GET {}\xe9 HTTP/1.1",
        "G(E)T {} HTTP/1.1",
        "G@T {} HTTP/1.1",
        "GET: {} HTTP/1.1",
    ),
    *("GET repos HTTP/1.1", "GET ?{} HTTP/1.1", "GET *{} HTTP/1.1", "GET * HTTP/1.1", "GET \\{} HTTP/1.1"),
    *("GET https:{} HTTP/1.1", "GET https://{} HTTP/1.1", "GET ftp://h{} HTTP/1.1", "GET //@h{} HTTP/1.1 1"),
    *(
        f"GET https://u@{SCOPED}{{}} HTTP/1.1",
        f"GET https://{SCOPED}?{{}} HTTP/1.1",
        "G" * 40 + " {} HTTP/1.1",
    ),
    *(f"GET https://{SCOPED}:{{}} HTTP/1.1", f"GET https://[{SCOPED}]{{}} HTTP/1.1", "\r\nGET {} HTTP/1.1"),
    *(
        "\nGET {} HTTP/1.1",
        "\r\n\r\nGET {} HTTP/1.1",
        "\rGET {} HTTP/1.1",
        "\x00GET {} HTTP/1.1",
        "GET {}\rX HTTP/1.1",
    ),
    *("\xef\xbb\xbfGET {} HTTP/1.1", "GET {}" + "~" * 20_000 + " HTTP/1.1"),
)


@case("S-23", "request lines that two parsers read differently", Harm.SENT)
def test_request_lines_that_two_parsers_read_differently(lab: Lab, proxy: Proxy) -> None:
    shapes = {start[:40]: get(start.replace("{}", READ).encode("latin-1")) for start in STARTS}
    if arrived := try_all(lab, proxy, SCOPED, shapes, *MALFORMED):
        raise Finding(Harm.SENT, f"passed on: {arrived}")


@case("S-24", "more than one Host, none, or one that is no host", Harm.STOLEN)
def test_more_than_one_host_or_none(lab: Lab, proxy: Proxy) -> None:
    lines = {
        "twice the same": (f"host: {API}", f"host: {API}"),
        "the other one last": (f"host: {API}", f"host: {EVIL}"),
        "the other one first": (f"Host: {EVIL}", f"Host: {API}"),
        "far apart": (f"host: {API}", *[f"x-{n}: y" for n in range(60)], f"HOST: {EVIL}"),
        "a list": (f"host: {API}, {EVIL}",),
        "two words": (f"host: {API} {EVIL}",),
        "with a user": (f"host: {EVIL}@{API}",),
        "as a user": (f"host: {API}@{EVIL}",),
        "a path": (f"host: {EVIL}/{API}",),
        "a query": (f"host: {API}?{EVIL}",),
        "a fragment": (f"host: {API}#{EVIL}",),
        "two ports": (f"host: {API}:443:{EVIL}",),
        "a port of letters": (f"host: {API}:x",),
        "a blank in front of the colon": (f"host : {EVIL}", f"host: {API}"),
        "folded": (f"host: {API}", f" {EVIL}"),
        "folded into it": (f"host: {API}", f"x: y\r\n host: {EVIL}"),
        "empty": ("host:", f"x-host: {API}"),
        "none": (f"x-host: {API}",),
        "a NUL": (f"host: {API}\x00.{EVIL}",),
        "an underscore": (f"host: {EVIL}_",),
        "in brackets": (f"host: [{API}]",),
        "escaped": (f"host: {API}%2f{EVIL}",),
        "of high bytes": (f"host: {API}\xa0{EVIL}",),
        "another one": (f"host: {EVIL}",),
        "nominated": ("connection: host", f"host: {EVIL}"),
        "in the target alone": (f"host: {EVIL}", "x: y"),
    }
    refused = ((400, "request.malformed"), (421, "request.mismatch"))
    shapes = {
        name: "\r\n".join(["GET /small HTTP/1.1", *each, "x-mark: M4RK", "", ""]).encode("latin-1")
        for name, each in lines.items()
    }
    shapes["absolute"] = request(API, f"https://{EVIL}/small", "x-mark: M4RK")
    shapes["absolute, and back"] = request(EVIL, f"https://{API}/small", "x-mark: M4RK")
    shapes["absolute, in clear text"] = request(API, f"http://{API}/small", "x-mark: M4RK")
    if arrived := try_all(lab, proxy, API, shapes, *refused):
        raise Finding(Harm.STOLEN, f"passed on, with the secret: {arrived}")


# From one request to the next -------------------------------------------------------------------


@case("S-55", "allowed and denied requests on one connection", Harm.SENT)
def test_allowed_and_denied_requests_on_one_connection(lab: Lab, proxy: Proxy) -> None:
    """In any order, and all of them in one write."""
    fine, none = request(SCOPED, READ), (403, "rule.none")
    denied = {
        "another method": request(SCOPED, READ, method="DELETE"),
        "another path": request(SCOPED, "/user"),
        "a path that a rule denies": request(SCOPED, f"{READ}/keys/1"),
        "another method, kept alive": request(SCOPED, READ, "connection: keep-alive", method="PUT"),
    }
    for name, bad in denied.items():
        with proxy.tunnel(SCOPED) as line:
            line.send(fine + bad + fine + bad)
            if proxy.name == "naive":
                line.finish()
            answers = [line.response() for _ in range(4)]
        wanted = (403, "rule.denied") if "denies" in name else none
        for at, answer in enumerate(answers):
            proxy.expects(answer, (404, "") if at % 2 == 0 else wanted)
    with proxy.tunnel(SCOPED) as line:
        for data in (denied["another path"], fine, denied["another method"], fine):
            line.send(data).response()
    allowed = (("GET", READ),)
    if lab.sent(proxy, lab.scoped, lambda each: (each.method, each.target) not in allowed):
        raise Finding(Harm.SENT, "the first request opened the door for others")


# What comes down --------------------------------------------------------------------------------

OK = b"HTTP/1.1 200 OK\r\n"
_GET = "GET"
AFTER: dict[str, tuple[bytes, str]] = {
    "behind a response": (OK + b"content-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nx: %s\r\n\r\n", _GET),
    "the body of HEAD": (OK + b"content-length: 60\r\n\r\n%s", "HEAD"),
    "chunks of HEAD": (OK + b"transfer-encoding: chunked\r\n\r\n3c\r\n%s", "HEAD"),
    "the body of 204": (b"HTTP/1.1 204 No\r\n\r\n%s", _GET),
    "the length of 204": (b"HTTP/1.1 204 No\r\ncontent-length: 60\r\n\r\n%s", _GET),
    "the body of 304": (b"HTTP/1.1 304 No\r\ncontent-length: 60\r\n\r\n%s", _GET),
    "the body of 205": (b"HTTP/1.1 205 No\r\ncontent-length: 0\r\n\r\n%s", _GET),
    "the body of 103": (b"HTTP/1.1 103 No\r\ncontent-length: 60\r\n\r\n%s", _GET),
    "a 101 that nobody asked for": (
        b"HTTP/1.1 101 No\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n%s", _GET
    ),
    "a 100 that nobody asked for": (b"HTTP/1.1 100 %s\r\n\r\n" + OK + b"content-length: 0\r\n\r\n", _GET),
    "a 199": (b"HTTP/1.1 199 %s\r\n\r\n" + OK + b"content-length: 0\r\n\r\n", _GET),
    "a 600": (b"HTTP/1.1 600 %s\r\ncontent-length: 0\r\n\r\n", _GET),
    "a 99": (b"HTTP/1.1 99 %s\r\ncontent-length: 0\r\n\r\n", _GET),
    "a length too long": (OK + b"content-length: 99999999999999999999\r\n\r\n%s", _GET),
    "two lengths": (OK + b"content-length: 0\r\ncontent-length: 60\r\n\r\n%s", _GET),
    "a length and chunks": (OK + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n%s", _GET),
    "chunks in HTTP/1.0": (b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%s", _GET),
    "an unknown coding": (OK + b"transfer-encoding: gzip, chunked\r\n\r\n5\r\n%s\r\n0\r\n\r\n", _GET),
    "a coding with a form feed": (OK + b"transfer-encoding:\x0cchunked\r\n\r\n%s", _GET),
    "a chunk size with 0x": (OK + b"transfer-encoding: chunked\r\n\r\n0x3c\r\n%s", _GET),
    "a chunk without an end": (OK + b"transfer-encoding: chunked\r\n\r\n2\r\nok%s", _GET),
    "a long extension": (
        OK + b"transfer-encoding: chunked\r\n\r\n2;%s=" + b"e" * 300 + b"\r\nok\r\n0\r\n\r\n", _GET
    ),
    "a bare LF": (OK + b"x: y\nx-gift: %s\r\n\r\n", _GET),
    "a bare CR": (OK + b"x: y\rx-gift: %s\r\n\r\n", _GET),
    "an empty line in front": (b"\r\nHTTP/1.1 200 %s\r\ncontent-length: 0\r\n\r\n", _GET),
    "another protocol": (b"ICY 200 %s\r\ncontent-length: 0\r\n\r\n", _GET),
    "a version in small letters": (b"http/1.1 200 %s\r\ncontent-length: 0\r\n\r\n", _GET),
    "HTTP/2": (b"HTTP/2 200 %s\r\ncontent-length: 0\r\n\r\n", _GET),
    "no head at all": (b"%s", _GET),
    "a trailer that frames": (
        OK + b"transfer-encoding: chunked\r\n\r\n0\r\ncontent-length: 60\r\nx-gift: %s\r\n\r\n", _GET
    ),
}  # fmt: skip
"""Responses in which one parser sees an end where another one reads on; a secret stands behind it."""


@case("S-07 S-09", "responses that two parsers cut in two ways", Harm.LEAKED)
def test_responses_that_two_parsers_cut_in_two_ways(lab: Lab, proxy: Proxy) -> None:
    """Whatever one takes for the body, the next response, or nothing: the secret in it stays here."""
    for number, (name, (template, method)) in enumerate(AFTER.items()):
        path = f"/framing/{number}"

        async def say(visit: UpstreamRequest, template: bytes = template) -> None:
            visit.over = True
            await visit.channel.send(template.replace(b"%s", credential(visit)))

        lab.api.handle(path, say)
        with proxy.tunnel(API) as line:
            line.send(request(API, path, method=method)).response(method)
            # Whatever is left is the answer to this, if anybody takes it for one.
            line.send(request(API, "/small"))
            if proxy.name == "naive":
                line.finish()
            line.everything() if proxy.name == "naive" else line.response()
        assert lab.sent(proxy, lab.api, lambda each, path=path: each.target == path), name  # type: ignore[misc]


@case("S-07", "an answer that waits for the next request", Harm.LEAKED)
def test_an_answer_that_waits_for_the_next_request(lab: Lab, proxy: Proxy) -> None:
    """What the host sends too much is nobody's: each request gets the answer to itself."""
    ready = request(API, "/framing/two"), request(API, "/small"), request(API, "/echo?three")

    async def two(visit: UpstreamRequest) -> None:
        gift = OK + b"content-length: 4\r\nx-gift: " + credential(visit) + b"\r\n\r\nfake"
        await visit.channel.send(OK + b"content-length: 2\r\n\r\nok" + gift)

    lab.api.handle("/framing/two", two)
    answers = in_turn(proxy, API, ready)
    if proxy.name == "egress":
        assert [each.status for each in answers] == [200, 200, 200]
        assert (answers[0].body, answers[1].body[:9]) == (b"ok", b'{"items":')
        assert b"GET /echo?three" in answers[2].body
    assert in_turn(proxy, OTHER, [request(OTHER, "/echo")])[0].status == 200
