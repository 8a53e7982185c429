"""What the proxy says itself: constant texts, in which nothing of a request, a rule or an upstream stands.

The sentences are read from docs/reference/refusals.md, the form from docs/reference/denials.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.attack.lab.cases import case
from tests.attack.lab.client import Answer, request
from tests.attack.lab.harm import Finding, Harm
from tests.attack.lab.hostile_handlers import HEADS, credential
from tests.attack.lab.http2 import Http2, head
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import (
    ANY,
    API,
    BASIC,
    COOKIE,
    EVIL,
    EXPIRED,
    HTTP2,
    KEYED,
    OTHER,
    QUERY,
    SCOPED,
    SOCKETS,
)
from tests.attack.lab.proxies import Proxy
from tests.attack.lab.websocket import ask_for_websocket
from tests.proxy.lab.http2 import Call
from tests.proxy.lab.upstream_request import UpstreamRequest

pytestmark = pytest.mark.system("ip", "iproute2")

DOCUMENTED = Path(__file__).parents[3] / "docs/reference/refusals.md"
QUOTED = "Qu0ted<b>"
"""What a request says everywhere, and no answer may."""


def _codes() -> Iterator[tuple[str, tuple[int, str, str]]]:
    for row in re.findall(
        r"^\| `([a-z_.]+)` \| (\d+) \| (.*?) \| (.*?) \|$", DOCUMENTED.read_text("utf-8"), re.MULTILINE
    ):
        yield row[0], (int(row[1]), row[2], row[3].replace("`", ""))


CODES = dict(_codes())
FIELDS = {
    "content-type",
    "content-length",
    "cache-control",
    "egress-denied",
    "egress-request",
    "x-content-type-options",
}
STATUSES = {"request.malformed": {400, 414, 417, 431, 501, 505}}
"""Where HTTP has a status that says it better than that of the code."""


def hold(answer: Answer, code: str, *, kind: str = "application/json") -> None:
    """Hold an answer of Egress to the page that is documented for a code, byte for byte but for the id."""
    assert answer.code == code, answer
    status, message, hint = CODES[code]
    assert answer.status in STATUSES.get(code, {status}), answer
    extra = {name for name, _ in answer.fields} - FIELDS
    assert extra <= {"connection", "x-should-retry"}, extra
    is_final = status in {400, 403, 413, 426} or code == "upstream.tls"
    assert answer.header("x-should-retry") == ("false" if is_final else None)
    assert len(answer.fields) == len({name for name, _ in answer.fields}), "a field stands twice"
    number = answer.header("egress-request") or ""
    assert re.fullmatch(r"[A-Za-z0-9_-]{12,20}", number), number
    command = f"egress log suggest {number}" if status in {403, 426} else ""
    about = f" ({command})" if command else ""
    assert answer.start == f"HTTP/1.1 {answer.status} Egress {code}{about}"
    assert (answer.header("cache-control"), answer.header("x-content-type-options")) == (
        "no-store",
        "nosniff",
    )
    assert answer.header("content-type") == kind
    body = answer.body.decode()
    if kind == "application/json":
        said = json.loads(body)["error"]
        said["hint"] = said["hint"].replace("`", "")
        operator = {"operator": command} if command else {}
        assert said == {"code": code, "message": message, "hint": hint, "request": number, **operator}
    else:
        last = f"For the operator: {command}\n" if command else ""
        assert body.replace("`", "") == f"Egress: {message} ({code})\n{hint}\nRequest: {number}\n{last}"


# What hosts break -------------------------------------------------------------------------------


@case("S-07 S-09", "answers that break where the secret stands", Harm.LEAKED)
def test_answers_that_break_where_the_secret_stands(lab: Lab, proxy: Proxy) -> None:
    """The page says that the answer was malformed, and quotes nothing of it."""
    for host in (API, KEYED, BASIC, QUERY, COOKIE):
        for path in HEADS:
            if not path.startswith("/lie/"):
                continue
            answer = proxy.ask(host, request(host, path))
            assert answer.status or proxy.name == "naive", path
            if proxy.name == "egress" and answer.code:
                hold(answer, "upstream.malformed")


HALVES = {
    "half a status line": b"HTTP/1.1 200 %s",
    "half a head": b"HTTP/1.1 200 OK\r\nx-gift: %s\r\n",
    "half a field": b"HTTP/1.1 200 OK\r\nx-gift: %s",
    "half a hint": b"HTTP/1.1 103 Hints\r\nlink: <%s>\r\n",
    "a hint and no more": b"HTTP/1.1 103 Hints\r\nx: y\r\n\r\nHTTP/1.1 200 %s",
    "nothing but the secret": b"%s",
}


@case("S-09", "answers that end where the secret stands", Harm.LEAKED)
def test_answers_that_end_where_the_secret_stands(lab: Lab, proxy: Proxy) -> None:
    for at, template in enumerate(HALVES.values()):

        async def say(visit: UpstreamRequest, template: bytes = template) -> None:
            visit.over = True
            await visit.body()
            await visit.channel.send(template.replace(b"%s", credential(visit)))

        lab.api.handle(f"/pages/half-{at}", say)
        answer = proxy.ask(API, request(API, f"/pages/half-{at}"))
        if proxy.name == "egress":
            hold(answer, answer.code if answer.code == "upstream.malformed" else "upstream.closed")


@case("S-09", "answers that break, to a client of HTTP/2", Harm.LEAKED)
def test_answers_that_break_to_a_client_of_http2(lab: Lab, proxy: Proxy) -> None:
    secret = lab.secrets.api.value
    with proxy.tunnel(API, alpn=("h2",)) as line:
        speaker = Http2(line)
        for path in (each for each in HEADS if each.startswith("/lie/")):
            if proxy.name == "naive" and path not in {"/lie/no-colon", "/lie/two-lengths", "/lie/nul"}:
                # Its parser waits for what does not come.
                continue
            stream = speaker.ask(API, path)
            shown = "\n".join(f"{name}: {text}" for name, text in (*stream.fields, *stream.trailers))
            if secret in shown.encode("latin-1") or secret in bytes(stream.body):
                raise Finding(Harm.LEAKED, f"{path} over HTTP/2")
            if proxy.name == "egress" and stream.header("egress-denied"):
                assert stream.header("egress-denied") == "upstream.malformed"
                assert json.loads(bytes(stream.body))["error"]["message"] == CODES["upstream.malformed"][1]


# What sandboxes send ----------------------------------------------------------------------------


def refusals(lab: Lab, proxy: Proxy) -> Iterator[tuple[str, Callable[..., Answer]]]:
    """Ways to be refused, each with its code; what is sent quotes the mark wherever it can."""
    mark = QUOTED.replace("<", "").replace(">", "")
    lab.dns.set(f"pages-inside.{ANY}", "10.1.1.1")
    lab.dns.set(f"pages-nowhere.{ANY}")

    def tunnelled(host: str, target: str = "/small", *own: str, method: str = "GET") -> Callable[..., Answer]:
        return lambda *more: proxy.ask(
            host, request(host, target, f"x-note: {QUOTED}", *own, *more, method=method)
        )

    def connecting(authority: str) -> Callable[..., Answer]:
        def ask(*more: str) -> Answer:
            with proxy.connect(authority, f"x-note: {QUOTED}", *more) as line:
                return line.answer

        return ask

    def plain(url: str) -> Callable[..., Answer]:
        host = url.split("/")[2]
        return lambda *more: proxy.say(request(host, url, f"x-note: {QUOTED}", *more))

    asking = (
        "upgrade: websocket",
        "connection: upgrade",
        "sec-websocket-version: 13",
        "sec-websocket-key: x",
    )
    yield "host.unknown", tunnelled(f"{mark}.{EVIL}", f"/{mark}?{mark}")
    yield "host.unknown", connecting(f"{mark}.{EVIL}:22")
    yield "host.unknown", plain(f"http://{mark}.{EVIL}/{mark}?{mark}")
    yield "host.port", connecting(f"{API}:853")
    yield "host.cleartext", plain(f"http://{API}/{mark}")
    yield "host.literal", connecting("10.0.0.1:443")
    yield "host.malformed", connecting(f"{mark}..{EVIL}:443")
    yield "request.malformed", tunnelled(API, "/small", f"{mark} : x")
    yield "request.malformed", tunnelled(API, "/small", "expect: " + mark)
    yield "request.malformed", tunnelled(API, "/small", f"transfer-encoding: {mark}", method="POST")
    yield "request.malformed", tunnelled(API, "/" + mark * 3000)
    yield "request.mismatch", lambda *more: proxy.ask(API, request(f"{mark}.{EVIL}", f"/{mark}", *more))
    yield "request.upgrade", tunnelled(SOCKETS, "/ws", f"upgrade: {mark}", "connection: upgrade")
    yield "rule.websocket", tunnelled(API, f"/{mark}", *asking)
    yield "path.ambiguous", tunnelled(SCOPED, f"/repos/acme/../{mark}")
    yield "path.override", tunnelled(SCOPED, "/repos/acme/app", f"x-original-url: /{mark}")
    yield "method.refused", tunnelled(SCOPED, f"/{mark}", method="get")
    yield "method.override", tunnelled(SCOPED, "/repos/acme/app", f"x-http-method-override: {mark}")
    yield "rule.denied", tunnelled(SCOPED, f"/repos/acme/app/keys/{mark}")
    yield "rule.none", tunnelled(SCOPED, f"/{mark}?{mark}", f"cookie: {mark}")
    yield "placeholder.misplaced", tunnelled(OTHER, f"/{mark}", f"x-key: {proxy.stand_in()}")
    yield "address.refused", tunnelled(f"pages-inside.{ANY}", f"/{mark}")
    yield "upstream.unresolved", tunnelled(f"pages-nowhere.{ANY}", f"/{mark}")
    yield "upstream.tls", tunnelled(EXPIRED, f"/{mark}")
    yield "upstream.malformed", tunnelled(API, f"/lie/status-line?{mark}")
    yield "response.withheld", tunnelled(API, f"/give/x-unknown?{mark}")
    yield "redirect.refused", tunnelled(API, f"/redirect?to=https%3A%2F%2F{mark}%40x%2F")
    yield "proxy.form", lambda *more: proxy.say(request(f"{mark}.{EVIL}", f"/{mark}", *more))


@case("S-01 S-15 S-17 S-18 S-24 S-27", "pages of refusals", Harm.LEAKED)
def test_pages_of_refusals(lab: Lab, proxy: Proxy) -> None:
    """They are as documented, whatever was asked, and quote nothing of it."""
    if proxy.name == "naive":
        with proxy.dial() as line:
            page = (
                line.send(f"GET http://{EVIL}/{QUOTED} HTTP/1.1\r\nx: {QUOTED}".encode())
                .finish()
                .everything()
            )
        if QUOTED.encode() in page:
            raise Finding(Harm.LEAKED, "the page quotes what was sent")
        return
    for code, ask in refusals(lab, proxy):
        answer = ask()
        hold(answer, code)
        hold(ask("accept: text/html"), code)
        # Where the head could not be read, nobody knows what the client would rather have.
        kind = "application/json" if code == "request.malformed" else "text/plain; charset=utf-8"
        hold(ask("accept: text/plain"), code, kind=kind)
        assert b"Qu0ted" not in answer.raw + answer.body, code


@case(
    "S-01 S-17",
    "pages in the forms that clients read",
    naive="it has one page for everybody, with nothing on it",
    twin="test_pages_of_refusals",
)
def test_pages_in_the_forms_that_clients_read(lab: Lab, proxy: Proxy) -> None:
    """For git, for gRPC, for HEAD, and over HTTP/2: the same code, and never a page of HTML."""
    plain = "text/plain; charset=utf-8"
    target = "/user?<script>".replace("<", "%3C").replace(">", "%3E")
    hold(proxy.ask(SCOPED, request(SCOPED, target, "user-agent: git/2.45")), "rule.none", kind=plain)
    for accept in (
        "text/html",
        "text/html;q=1, */*;q=0.1",
        "image/*",
        "*/*",
        "a" * 5000,
        "text/plain;q=0",
        "\xff",
    ):
        hold(proxy.ask(SCOPED, request(SCOPED, target, f"accept: {accept}")), "rule.none")
    answer = proxy.ask(SCOPED, request(SCOPED, target, method="HEAD"))
    assert (answer.status, answer.code, answer.body) == (403, "rule.none", b"")
    for kind in (
        "application/grpc",
        "application/grpc+proto",
        "application/grpc-web+proto",
        "APPLICATION/GRPC; x=y",
    ):
        answer = proxy.ask(SCOPED, request(SCOPED, target, f"content-type: {kind}", method="POST"))
        assert (answer.status, answer.code, answer.body) == (200, "rule.none", b"")
        assert answer.header("grpc-status") == "7"
        assert (answer.header("content-type") or "").startswith("application/grpc")
    with proxy.tunnel(SCOPED, alpn=("h2",)) as line:
        stream = Http2(line).ask(SCOPED, target)
        assert (stream.status, stream.header("egress-denied")) == (403, "rule.none")
        assert json.loads(bytes(stream.body))["error"]["code"] == "rule.none"
        assert {name for name, _ in stream.fields} == FIELDS | {":status", "x-should-retry"}


# Who speaks -------------------------------------------------------------------------------------

NAMES = ("egress-denied", "Egress-Denied", "EGRESS-REQUEST", "egress-anything", "egress-")


@case("S-09", "a host that speaks in the name of the proxy", Harm.FORGED)
def test_a_host_that_speaks_in_the_name_of_the_proxy(lab: Lab, proxy: Proxy) -> None:
    """A client has to be able to tell a refusal of the proxy from one of the host."""
    said = b"".join(f"{name}: host.unknown\r\n".encode() for name in NAMES)

    async def pretend(visit: UpstreamRequest) -> None:
        await visit.body()
        await visit.channel.send(b"HTTP/1.1 103 Hints\r\n" + said + b"\r\n")
        await visit.channel.send(b"HTTP/1.1 403 Egress host.unknown\r\ntransfer-encoding: chunked\r\n" + said)
        await visit.channel.send(b"\r\n2\r\nno\r\n0\r\n" + said + b"\r\n")

    async def pretend_2(call: Call) -> None:
        lines = tuple((name.lower(), "host.unknown") for name in NAMES)
        await call.begin(103, *lines)
        await call.begin(403, *lines)
        await call.say(b"no")
        await call.conversation.headers(call.stream, lines, end=True)

    async def pretend_switch(visit: UpstreamRequest) -> None:
        await visit.answer(b"no", (("egress-denied", "rule.websocket"),), status="403 Egress rule.websocket")

    for site in (lab.api, lab.other):
        site.handle("/pages/pretend", pretend)
    lab.h2.handle("/pages/pretend", pretend_2)
    lab.sockets.handle("/ws", pretend_switch)
    for host in (API, OTHER):
        answer = proxy.ask(host, request(host, "/pages/pretend"))
        groups = [answer.raw, answer.trailers, *(each.raw for each in answer.before)]
        if any(b"egress-" in text.lower() for text in groups):
            raise Finding(Harm.FORGED, f"{host} speaks in the name of the proxy")
    with proxy.tunnel(HTTP2, alpn=("h2",)) as line:
        stream = Http2(line).ask(HTTP2, "/pages/pretend")
        fields = [
            *stream.fields,
            *stream.trailers,
            *(field for each in stream.informational for field in each),
        ]
        assert not any(name.startswith("egress-") for name, _ in fields), fields
    with proxy.tunnel(SOCKETS) as line:
        assert ask_for_websocket(line, SOCKETS).code == ""


@case(
    "S-55",
    "a page, and the connection behind it",
    naive="it closes after each of its pages",
    twin="test_a_host_that_speaks_in_the_name_of_the_proxy",
)
def test_a_page_and_the_connection_behind_it(lab: Lab, proxy: Proxy) -> None:
    """What of a refused request is still to come is no request, and what is whole leaves the way free."""
    with proxy.tunnel(SCOPED) as line:
        for _ in range(3):
            hold(line.send(request(SCOPED, "/user")).response(), "rule.none")
            assert line.send(request(SCOPED, "/repos/acme/app")).response().status == 404
            assert line.send(request(SCOPED, "/user", method="HEAD")).response("HEAD").code == "rule.none"
    for body in (b"x" * 200_000, request(SCOPED, "/repos/acme/app") * 50):
        with proxy.tunnel(SCOPED) as line:
            data = request(SCOPED, "/user", f"content-length: {len(body) + 9}", method="POST")
            answer = line.send(data + body).response("POST")
            hold(answer, "rule.none")
            assert answer.header("connection") == "close"
    sent = lab.sent(proxy, lab.scoped)
    assert [(each.method, each.target) for each in sent] == [("GET", "/repos/acme/app")] * 3


@case("S-09", "a host that answers before it was asked, and more than it was", Harm.LEAKED)
def test_a_host_that_answers_more_than_it_was_asked(lab: Lab, proxy: Proxy) -> None:
    """Bytes that nobody waits for are thrown away, whoever is served next."""

    async def chatter(visit: UpstreamRequest) -> None:
        await visit.body()
        gift = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx-gift: " + credential(visit) + b"\r\n\r\n"
        await visit.channel.send(b"HTTP/1.1 204 No\r\n\r\n" + gift * 3)

    lab.api.handle("/pages/chatter", chatter)
    with proxy.tunnel(API) as line:
        for _ in range(4):
            line.send(request(API, "/pages/chatter")).response()
            line.send(request(API, "/small")).response()
    with proxy.tunnel(API, alpn=("h2",)) as line:
        speaker = Http2(line)
        streams = [speaker.start(*head(API, "/pages/chatter")) for _ in range(4)]
        for stream in streams:
            speaker.whole(stream)
        assert not any(name == "x-gift" for stream in streams for name, _ in stream.fields)
