"""A host sends back what it was sent: in every place of a response, in every form, cut wherever it may be.

What is promised is told by `leaks.Leak.promised` and docs/security.md: whole secrets, in forms that encoders
of the trade write. All of it runs at the level `debug`.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import html
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import pytest
import zstandard

from tests.attack.catalogue import extended_rules
from tests.attack.catalogue.extended_rules import COOKIES, SECRETS, WALL, must_not_show, own
from tests.attack.lab.attack_spellings import in_turn
from tests.attack.lab.cases import case
from tests.attack.lab.client import Answer, request
from tests.attack.lab.harm import Finding, Harm
from tests.attack.lab.hostile_handlers import HEADS, credential
from tests.attack.lab.http2 import Http2
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import API, BASIC, BLOCKING, COOKIE, KEYED, QUERY, STANDIN
from tests.attack.lab.proxies import Egress, Proxy
from tests.proxy.lab.upstream_request import UpstreamRequest

pytestmark = pytest.mark.system("ip", "iproute2")

KINDS = (API, KEYED, BASIC, QUERY, COOKIE, STANDIN)
"""Hosts that are given a secret, each in another way."""
Form = Callable[[bytes], bytes]


@pytest.fixture
def egress(wide: Egress) -> Egress:
    return wide


def asking(proxy: Proxy, host: str, target: str, *lines: str, method: str = "GET") -> bytes:
    """A request that gets a secret injected, whatever that takes."""
    mark = (f"x-api-key: {proxy.stand_in()}",) if host == STANDIN else ()
    return request(host, target, *mark, *lines, method=method)


def answering(lab: Lab, host: str, path: str, say: Callable[[bytes], Iterable[bytes]]) -> None:
    """Let a host answer a path with pieces made of the credential, one write each.

    The connection stays, unless the answer says that it does not.
    """

    async def answer(visit: UpstreamRequest) -> None:
        await visit.body()
        for piece in say(credential(visit)):
            visit.over = visit.over or b"connection: close\r\n" in piece
            await visit.channel.send(piece)
            # Lets the proxy read this piece before the next one comes.
            await asyncio.sleep(0)

    lab.internet.sites.get(host, lab.any).handle(path, answer)


def saying(data: bytes) -> Callable[[bytes], Iterable[bytes]]:
    """What `answering` takes, where the credential makes no difference."""
    return lambda _: [data]


def whole(body: bytes, *lines: bytes) -> bytes:
    """A response with a length."""
    head = [b"HTTP/1.1 200 OK", b"content-length: %d" % len(body), *lines, b"", b""]
    return b"\r\n".join(head) + body


def chunks(pieces: Iterable[bytes], *lines: bytes) -> Iterator[bytes]:
    """A response in chunks, one a piece."""
    yield b"\r\n".join([b"HTTP/1.1 200 OK", b"transfer-encoding: chunked", *lines, b"", b""])
    for piece in pieces:
        if piece:
            yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def put_together(
    proxy: Proxy, answers: Iterable[Answer], secrets: Mapping[str, bytes], decode: Form = bytes
) -> None:
    """Look for whole secrets in bodies as a client reads them, however they were cut on the way."""
    for answer in answers:
        for name, secret in secrets.items():
            if decode(secret) in answer.body:
                raise Finding(Harm.LEAKED, f"{name}, put together, at {proxy.name}")


def of_lab(lab: Lab) -> dict[str, bytes]:
    return {each.name: each.value for each in lab.secrets.all}


# Forms ------------------------------------------------------------------------------------------


def _every(form: bytes) -> Form:
    return lambda data: b"".join(form % byte for byte in data)


def _written(write: Callable[[str], str]) -> Form:
    return lambda data: write(data.decode()).encode()


def _swap(table: Mapping[str, str]) -> Form:
    codes = {ord(mark): text for mark, text in table.items()}
    return lambda data: data.decode().translate(codes).encode()


def _in_json(*marks: str, upper: bool = False) -> Form:
    """JSON by an encoder that is careful with some characters more than it has to be."""
    form = "\\u%04X" if upper else "\\u%04x"
    table = {mark: form % ord(mark) for mark in marks} | {'"': '\\"', "\\": "\\\\"}
    return _swap(table)


FORMS: Final[dict[str, Form]] = {
    "plain": bytes,
    "in capitals": bytes.upper,
    "in small letters": bytes.lower,
    "base64": base64.b64encode,
    "base64 behind one byte": lambda data: base64.b64encode(b"x" + data + b"yy"),
    "base64 behind two": lambda data: base64.b64encode(b"xx" + data + b"y"),
    "base64 of the whole line": lambda data: base64.b64encode(b"authorization: Bearer " + data + b"\r\n"),
    "base64 for URLs": lambda data: base64.urlsafe_b64encode(b"?" + data).rstrip(b"="),
    "base64 in JSON": lambda data: base64.b64encode(data).replace(b"/", b"\\/"),
    "base64 in a URL": lambda data: quote(base64.b64encode(data), safe="").encode(),
    "base64 in a page": lambda data: html.escape(base64.b64encode(data).decode()).encode(),
    "hex": lambda data: data.hex().encode(),
    "HEX": lambda data: data.hex().upper().encode(),
    "hex of the whole line": lambda data: (b"authorization: Bearer " + data).hex().encode(),
    "each byte escaped": _every(b"%%%02x"),
    "each byte ESCAPED": _every(b"%%%02X"),
    "a component": _written(lambda text: quote(text, safe="")),
    "a path": _written(quote),
    "encodeURIComponent": _written(lambda text: quote(text, safe="-._~!'()*")),
    "encodeURI": _written(lambda text: quote(text, safe="-._~/?:@!$&'()*+,;=#")),
    "a form": _written(quote_plus),
    "a form of a browser": _written(lambda text: quote_plus(text, safe="*").replace("~", "%7E")),
    "JSON": _in_json(),
    "JSON of PHP": _swap({"/": "\\/", '"': '\\"', "\\": "\\\\"}),
    "JSON of Go": _in_json(*"<>&"),
    "JSON of Gson": _in_json(*"<>&'="),
    "JSON of .NET": _in_json(*"<>&'\"+`", upper=True),
    "JSON, each byte": _every(b"\\u00%02x"),
    "JavaScript, each byte": _every(b"\\x%02X"),
    "a page of Python": _written(html.escape),
    "a page of lodash": _swap({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}),
    "a page without quotes": _swap({"&": "&amp;", "<": "&lt;", ">": "&gt;"}),
    "a page of OWASP": _swap(
        {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;", "/": "&#x2F;"}
    ),
}  # fmt: skip

# What writers of pages, paths and scripts that many services use make of it.
_MARKS = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
MORE_FORMS: Final[dict[str, Form]] = {
    "html/template of Go": _swap(_MARKS | {'"': "&#34;", "'": "&#39;", "+": "&#43;"}),
    "Handlebars": _swap(_MARKS | {'"': "&quot;", "'": "&#x27;", "`": "&#x60;", "=": "&#x3D;"}),
    "Mustache": _swap(
        _MARKS | {'"': "&quot;", "'": "&#39;", "/": "&#x2F;", "`": "&#x60;", "=": "&#x3D;"}
    ),
    "ASP.NET Core": _swap(_MARKS | {'"': "&quot;", "'": "&#x27;", "+": "&#x2B;"}),
    "XML": _swap(_MARKS | {'"': "&quot;", "'": "&apos;"}),
    "htmlspecialchars of PHP": _swap(_MARKS | {'"': "&quot;", "'": "&#039;"}),
    "numbers of characters": _every(b"&#%d;"),
    "numbers of characters, in hex": _every(b"&#x%x;"),
    "numbers of characters, in HEX": _every(b"&#x%X;"),
    "a segment of a path, in Go": _written(lambda text: quote(text, safe="$&+=:@~")),
    "a segment of a path": _written(lambda text: quote(text, safe="-._~!$'()*,;&=@:+")),
    "a path, in Go": _written(lambda text: quote(text, safe="$&+,/:;=@~")),
    "escapejs of Django": _in_json(*"\\'\"<>&=-;`", upper=True),
    "json_encode with every caution": _in_json(*"<>'&\"", upper=True),
}  # fmt: skip


def _reflect(lab: Lab, proxy: Proxy, forms: Mapping[str, Form], host: str = API) -> list[Answer]:
    """Have every form sent back: whole, and in chunks that cut it at every place, byte by byte at last."""
    paths = []
    for at, (name, encode) in enumerate(forms.items()):

        def say(secret: bytes, encode: Form = encode, name: str = name) -> Iterator[bytes]:
            form = encode(secret)
            rows = [b"<%b|%b>" % (name.encode(), form), b"\n"]
            for cut in range(1, len(form), 1 if len(form) < 60 else 7):
                rows += [form[:cut], form[cut:] + b"\n"]
            rows += [form[place : place + 1] for place in range(len(form))]
            return chunks(rows, b"content-type: text/plain")

        path = f"/reflection/form-{at}"
        answering(lab, host, path, say)
        paths.append(path)
    answers = in_turn(proxy, host, [asking(proxy, host, path) for path in paths])
    assert [answer.status for answer in answers] == [200] * len(paths)
    assert all(answer.complete for answer in answers)
    return answers


@case("S-07", "a secret in a body, in every form and cut at every place", Harm.LEAKED)
def test_a_secret_in_a_body_in_every_form(lab: Lab, proxy: Proxy) -> None:
    answers = _reflect(lab, proxy, FORMS)
    secret = lab.secrets.api.value
    for answer, (name, encode) in zip(answers, FORMS.items(), strict=True):
        if encode(secret) in answer.body:
            raise Finding(Harm.LEAKED, f"{name}, put together")
        assert proxy.name == "naive" or f"<{name}|".encode() in answer.body, "what is no secret is missing"


@case("S-07", "a secret in the forms of template engines and of paths", Harm.LEAKED)
def test_a_secret_in_the_forms_of_template_engines(lab: Lab, proxy: Proxy) -> None:
    answers = _reflect(lab, proxy, MORE_FORMS)
    found = [
        name
        for answer, (name, encode) in zip(answers, MORE_FORMS.items(), strict=True)
        if encode(lab.secrets.api.value) in answer.body
    ]
    if found:
        raise Finding(Harm.LEAKED, ", ".join(found))


@case("S-07", "base64 in the forms of template engines", Harm.LEAKED)
def test_base64_in_the_forms_of_template_engines(lab: Lab, proxy: Proxy) -> None:
    """A token that is base64 itself, and Basic, have `+`, `/` and `=` in them."""
    extended_rules.arm(proxy)
    answers = _reflect(lab, proxy, MORE_FORMS, own("padded"))
    found = [
        name
        for answer, (name, encode) in zip(answers, MORE_FORMS.items(), strict=True)
        if encode(SECRETS["padded"]) in answer.body
    ]
    if found:
        raise Finding(Harm.LEAKED, ", ".join(found))


@case("S-07", "secrets of every kind of injection, echoed", Harm.LEAKED)
def test_secrets_of_every_kind_of_injection(lab: Lab, proxy: Proxy) -> None:
    """The whole request comes back as the host got it: from a header, a password, a target, a cookie."""
    dump = {
        "raw": bytes,
        "json": lambda data: json.dumps({"raw": data.decode("latin-1")}).encode(),
        "html": lambda data: html.escape(data.decode("latin-1")).encode(),
        "percent": lambda data: quote(data, safe="").encode(),
    }
    for host in KINDS:
        for name, encode in dump.items():

            async def echo(visit: UpstreamRequest, encode: Form = encode) -> None:
                await visit.body()
                await visit.answer(encode(visit.request.raw))

            lab.site(host).handle(f"/reflection/{name}", echo)
        # A query escaped once more has a case of its own, below.
        names = [name for name in dump if (host, name) != (QUERY, "percent")]
        answers = in_turn(proxy, host, [asking(proxy, host, f"/reflection/{name}?x=y") for name in names])
        assert [answer.status for answer in answers] == [200] * len(names)
        if proxy.name == "egress":
            assert all(b"***" in answer.body for answer in answers), "nothing was given back at all"


@case("S-07 S-56", "the URL of the request in a URL, with its secret", Harm.LEAKED)
def test_the_url_of_the_request_in_a_url(lab: Lab, proxy: Proxy) -> None:
    """`?next=` of a page for signing in, a state in base64, a link of a page, an error that quotes it.

    In a query we escape the secret, and such pages do it again.
    """
    sent = lab.secrets.other.value
    forms: dict[str, Form] = {
        "next": lambda url: b"/login?next=" + quote(url, safe="").encode(),
        "next, all in one": lambda url: b"/login?next=" + quote(b"https://q.test" + url).encode(),
        "state": lambda url: b"/login?state=" + base64.urlsafe_b64encode(url),
        "json": lambda url: json.dumps({"url": quote(url, safe="")}).encode(),
    }
    for at, encode in enumerate(forms.values()):

        async def sign_in(visit: UpstreamRequest, encode: Form = encode) -> None:
            await visit.body()
            text = encode(visit.request.target.encode("latin-1"))
            location = text.decode() if text.startswith(b"/") else "/login"
            await visit.answer(text, (("location", location),), status="302 Found")

        lab.site(QUERY).handle(f"/reflection/next-{at}", sign_in)
    answers = in_turn(
        proxy, QUERY, [request(QUERY, f"/reflection/next-{at}?x=y") for at in range(len(forms))]
    )
    quoted = quote(sent, safe="").encode()
    for name, answer, encode in zip(forms, answers, forms.values(), strict=True):
        shown = answer.raw + answer.body
        # What is the same in every place of the coded text.
        core = encode(b"///?x=y&key=" + quoted)[-48:-4]
        if core in shown:
            raise Finding(Harm.LEAKED, f"{name}: the secret as it was sent, escaped once more")


# Places -----------------------------------------------------------------------------------------


@case("S-09 S-76", "a secret in every place of a head, of every kind of injection", Harm.LEAKED)
def test_a_secret_in_every_place_of_a_head(lab: Lab, proxy: Proxy) -> None:
    for host in KINDS:
        for path in HEADS:
            if path.startswith("/give/"):
                answer = proxy.ask(host, asking(proxy, host, path))
                assert answer.status, f"{host}{path}: no answer at all"


FIELDS = (
    *(
        "x-echo: {}",
        "x-echo: Bearer {}",
        'x-a: {}, {}; q="{}"',
        "server: {}",
        "via: 1.1 {}",
        'warning: 199 - "{}"',
    ),
    *(
        'www-authenticate: Bearer error="{}"',
        "authentication-info: {}",
        "proxy-authenticate: {}",
        'etag: "{}"',
    ),
    *("last-modified: {}", "content-type: text/plain; x={}", "content-language: {}", "content-location: /{}"),
    *('content-disposition: attachment; filename="{}"', "content-disposition: x; filename*=UTF-8''{%}"),
    *(
        "content-security-policy: report-uri /{}",
        "link: <{%}>; rel=x",
        "refresh: 9; url=/{}",
        'alt-svc: x="{}"',
    ),
    *(
        "set-cookie: a={}",
        "set-cookie: {}=a",
        "set-cookie2: {}",
        "p3p: {}",
        "x-request-id: {64}",
        "x-hex: {x}",
    ),
    *(
        "access-control-allow-origin: {}",
        'server-timing: x;desc="{}"',
        "sourcemap: {}",
        "allow: {}",
        "age: {}",
    ),
    *("x-upper: {U}", "x-lower: <{L}>", "link: </{U}>; rel=x"),
    *("x-json: {j}", "trailer: {}", "vary: {}", "retry-after: {}", "content-range: bytes 0-1/{}", "x: {}{}"),
    *(
        "egress-denied: {}",
        "egress-request: {}",
        "digest: {64}",
        "accept-ranges: {}",
        "connection: x-y\r\nx-y: {}",
    ),
    *("keep-alive: {}", "upgrade: {}", "date: {}", 'cache-control: private="{}"', "grpc-message: {%}"),
)


def _filled(line: str, secret: bytes) -> bytes:
    text = secret.decode()
    forms = {
        "{%}": quote(text, safe=""),
        "{64}": base64.b64encode(secret).decode(),
        "{x}": secret.hex(),
        "{U}": text.upper(),
        "{L}": text.lower(),
        "{}": text,
    }
    forms["{j}"] = json.dumps(text)
    for mark, form in forms.items():
        line = line.replace(mark, form)
    return line.encode()


@case("S-09", "a secret in every field that there is", Harm.LEAKED)
def test_a_secret_in_every_field(lab: Lab, proxy: Proxy) -> None:
    """On a response, on hints before it, in the answer to HEAD, and in its trailers."""
    statuses = (b"200 OK", b"401 No", b"204 No", b"304 No", b"404 No", b"500 No", b"299 Odd", b"502 Bad")
    for at, line in enumerate(FIELDS):

        def say(
            secret: bytes, line: str = line, status: bytes = statuses[at % len(statuses)]
        ) -> Iterator[bytes]:
            field = _filled(line, secret)
            yield b"HTTP/1.1 103 Hints\r\n" + field + b"\r\n\r\n"
            end = b"" if status[:3] in {b"204", b"304"} else b"content-length: 0\r\n"
            yield b"HTTP/1.1 " + status + b"\r\n" + field + b"\r\n" + end + b"\r\n"

        def trail(secret: bytes, line: str = line) -> Iterator[bytes]:
            yield from list(chunks([b"body"]))[:-1]
            yield b"0\r\n" + _filled(line, secret) + b"\r\nx-last: 1\r\n\r\n"

        answering(lab, API, f"/reflection/field-{at}", say)
        answering(lab, API, f"/reflection/trail-{at}", trail)
    asked = [asking(proxy, API, f"/reflection/field-{at}") for at in range(len(FIELDS))]
    asked += [asking(proxy, API, f"/reflection/field-{at}", method="HEAD") for at in range(len(FIELDS))]
    asked += [asking(proxy, API, f"/reflection/trail-{at}") for at in range(len(FIELDS))]
    answers = in_turn(proxy, API, asked)
    if proxy.name == "egress":
        assert len([answer for answer in answers if answer.status == 200]) > len(FIELDS), (
            "too little came through"
        )
        assert not any(name.startswith("egress-") for a in answers if a.status < 300 for name, _ in a.fields)


@case("S-09", "a secret in the name of a field", Harm.LEAKED)
def test_a_secret_in_the_name_of_a_field(lab: Lab, proxy: Proxy) -> None:
    """One that may stand there; names are written in small letters on their way."""
    extended_rules.arm(proxy)
    host, secret = own("token"), SECRETS["token"]
    lines = (b"%b: x", b"x-%b: y", b"%b-x: y", b"X-%b-%b: y")
    for at, line in enumerate(lines):
        name = line.replace(b"%b", secret)
        in_hex = name.replace(secret, secret.hex().encode())
        for turn, field in enumerate((name, name.upper(), name.lower(), in_hex)):
            answering(lab, host, f"/reflection/name-{at}-{turn}", saying(whole(b"ok", field)))
    asked = [request(host, f"/reflection/name-{at}-{turn}") for at in range(len(lines)) for turn in range(4)]
    answers = in_turn(proxy, host, asked)
    assert [answer.body for answer in answers] == [b"ok"] * len(asked)
    must_not_show(proxy, "token")


@case("S-09", "a secret in heads that answer a client of HTTP/2", Harm.LEAKED)
def test_a_secret_in_heads_that_answer_a_client_of_http2(lab: Lab, proxy: Proxy) -> None:
    """What is a line above becomes a field below: the same places, another way to write them."""
    for host in (API, BASIC, QUERY):
        with proxy.tunnel(host, alpn=("h2",)) as line:
            speaker = Http2(line)
            answered = 0
            for path in HEADS:
                if proxy.name == "egress" or path.startswith("/give/"):
                    stream = speaker.ask(host, path)
                    answered += stream.status in {200, 302, 403, 502}
                    if _in_fields(lab, [*stream.informational, stream.fields, stream.trailers]):
                        raise Finding(Harm.LEAKED, f"{path} over HTTP/2")
            assert proxy.name == "naive" or answered == len(HEADS)


def _in_fields(lab: Lab, groups: Iterable[Iterable[tuple[str, str]]]) -> bool:
    text = "\n".join(f"{name}: {value}" for fields in groups for name, value in fields).encode("latin-1")
    return any(secret in text or quote(secret, safe="").encode() in text for secret in of_lab(lab).values())


def partial(response: bytes) -> bytes:
    """The same as an answer to a request for a range."""
    return response.replace(b"200 OK", b"206 Partial", 1)


def in_parts(line: bytes, body: bytes) -> bytes:
    """A body of one part, with a line in its head."""
    return b"--x\r\n" + line + b"\r\n\r\n" + body + b"\r\n--x--"


def in_charset(name: bytes) -> bytes:
    return b"content-type: text/plain; charset=" + name


@case("S-07", "a secret in pieces of a resource and in parts of a body", Harm.LEAKED)
def test_a_secret_in_pieces_and_parts(lab: Lab, proxy: Proxy) -> None:
    """Ranges, multipart, events, a body up to the end of the connection: each holds it whole somewhere."""
    part = b"content-range: bytes 0-9/99"
    zipped = b"content-encoding: gzip"
    lines = (b"text/event-stream", b"application/x-ndjson", b"multipart/form-data; boundary=x", b"image/png")
    events, rows, form, image = (b"content-type: " + kind for kind in lines)
    says: dict[str, Callable[[bytes], Iterable[bytes]]] = {
        "a range": lambda s: [partial(whole(s, part))],
        "a coded range": lambda s: [partial(whole(gzip.compress(s * 9), part, zipped))],
        "a coded range that is called whole": lambda s: [whole(gzip.compress(s * 9), part, zipped)],
        "a coded range that says 206 alone": lambda s: [partial(whole(gzip.compress(s * 9), zipped))],
        "ranges in parts": lambda s: [partial(whole(in_parts(part, s), form))],
        "the head of a part": lambda s: [
            whole(in_parts(b'content-disposition: form-data; name="%b"' % s, b"1"), form)
        ],
        "a part in base64": lambda s: [
            whole(in_parts(b"content-transfer-encoding: base64", base64.b64encode(s)), form)
        ],
        "an event": lambda s: chunks([b"data: ", s[:9], s[9:], b"\n\n", b"id: " + s + b"\n\n"], events),
        "events, each byte": lambda s: chunks([b"data: ", *(bytes([b]) for b in s), b"\n\n"], events),
        "lines of JSON": lambda s: chunks([b'{"a": "', s[:20], s[20:], b'"}\n'], rows),
        "beyond its stated charset": lambda s: [whole(b"\xff\xfe" + s, in_charset(b"utf-8"))],
        "another charset": lambda s: [whole(s.decode().encode("utf-16"), in_charset(b"utf-16"))],
        "another charset, in quotes": lambda s: [whole(s.decode().encode("utf-7"), in_charset(b'"utf-7"'))],
        "a charset of two": lambda s: [whole(s, in_charset(b"utf-8; charset=utf-16"))],
        "an EBCDIC": lambda s: [whole(s.decode().encode("cp037"), in_charset(b"ibm037"))],
        "an instance manipulation": lambda s: [
            whole(gzip.compress(s * 9), b"im: gzip").replace(b"200 OK", b"226 IM", 1)
        ],
        "a text in an image": lambda s: [whole(b"\x89PNG\r\n\x1a\n\0\0\0\0tEXt" + s, image)],
    }
    for at, say in enumerate(says.values()):
        answering(lab, API, f"/reflection/part-{at}", say)
    answers = in_turn(proxy, API, [asking(proxy, API, f"/reflection/part-{at}") for at in range(len(says))])
    put_together(proxy, answers, of_lab(lab))
    withheld = {
        name for name, answer in zip(says, answers, strict=True) if answer.code == "response.withheld"
    }
    if proxy.name == "egress":
        assert {"a coded range", "another charset", "an instance manipulation"} <= withheld, withheld
        assert not {"a range", "an event", "the head of a part"} & withheld, withheld
    answering(
        lab, API, "/reflection/end", lambda s: [b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", s[:7], s[7:]]
    )
    proxy.ask(API, request(API, "/reflection/end"))


# Codings ----------------------------------------------------------------------------------------


def _deflate(data: bytes, bits: int = 15) -> bytes:
    packer = zlib.compressobj(wbits=bits)
    return packer.compress(data) + packer.flush()


PACKERS: Final[dict[str, Form]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "x-gzip": lambda data: gzip.compress(data, mtime=0),
    "GZip": lambda data: gzip.compress(data, mtime=0),
    "deflate": _deflate,
    "br": lambda data: bytes(brotli.compress(data)),
    "zstd": zstandard.compress,
}
FILLER: Final = b"." * 3000


@case("S-08", "a secret in every coding, whole, in pieces, and in members", Harm.LEAKED)
def test_a_secret_in_every_coding(lab: Lab, proxy: Proxy) -> None:
    paths = []
    for coding, pack in PACKERS.items():
        line = b"content-encoding: " + coding.encode()
        cut = b"\0" if coding == "br" else b""
        says: dict[str, Callable[[bytes], Iterable[bytes]]] = {
            "whole": lambda s, p=pack, e=line: [whole(p(s * 3 + FILLER), e)],  # type: ignore[misc]
            "bytes": lambda s, p=pack, e=line: chunks([bytes([b]) for b in p(FILLER + s)], e),  # type: ignore[misc]
            "two": lambda s, p=pack, e=line: [whole(p(FILLER + s[:20]) + p(s[20:] + FILLER), e)],  # type: ignore[misc]
            "behind": lambda s, p=pack, e=line: [whole(p(FILLER) + s + s, e)],  # type: ignore[misc]
            "half": lambda s, p=pack, e=line: [whole(p(s * 9 + FILLER)[:-9], e)],  # type: ignore[misc]
            "lie": lambda s, e=line: [whole(s * 9, e)],  # type: ignore[misc]
            "end": lambda s, p=pack, e=line: [  # type: ignore[misc]
                b"HTTP/1.1 200 OK\r\nconnection: close\r\n" + e + b"\r\n\r\n" + p(s + FILLER)
            ],
            "empty": lambda _, e=line, c=cut: [whole(c[:0], e)],  # type: ignore[misc]
        }
        for name, say in says.items():
            path = f"/reflection/{coding}-{name}"
            answering(lab, API, path, say)
            paths.append(path)
    answers = in_turn(proxy, API, [asking(proxy, API, path) for path in paths])
    put_together(proxy, answers, of_lab(lab))
    if proxy.name == "egress":
        by_path = dict(zip(paths, answers, strict=True))
        for path, answer in by_path.items():
            assert answer.header("content-encoding") is None or not answer.body, path
        assert all(by_path[f"/reflection/{coding}-whole"].body.endswith(FILLER) for coding in PACKERS)


@case("S-08", "codings that are none, two, or another than said", Harm.LEAKED)
def test_codings_that_are_none_or_two(lab: Lab, proxy: Proxy) -> None:
    """What cannot be read is not passed on; what says nothing is plain."""

    def zipped(data: bytes) -> bytes:
        return gzip.compress(data, mtime=0)

    said: dict[str, tuple[bytes, Form]] = {
        "gzip twice": (b"content-encoding: gzip, gzip", lambda s: zipped(zipped(s))),
        "in two lines": (b"content-encoding: gzip\r\ncontent-encoding: gzip", lambda s: zipped(zipped(s))),
        "br in gzip": (b"content-encoding: br, gzip", lambda s: zipped(bytes(brotli.compress(s)))),
        "with identity": (b"content-encoding: identity, gzip", zipped),
        "in two lines with identity": (b"content-encoding: identity\r\ncontent-encoding: gzip", zipped),
        "with a parameter": (b"content-encoding: gzip;q=1", zipped),
        "in quotes": (b'content-encoding: "gzip"', zipped),
        "unknown": (b"content-encoding: x-unknown", zipped),
        "a codec of Python": (b"content-encoding: zlib", _deflate),
        "rot13": (b"content-encoding: rot13", bytes),
        "base64": (b"content-encoding: base64", base64.b64encode),
        "aws-chunked": (b"content-encoding: aws-chunked", lambda s: b"%x\r\n%b\r\n0\r\n\r\n" % (len(s), s)),
        "compress": (b"content-encoding: compress", zipped),
        "pack200-gzip": (b"content-encoding: pack200-gzip", zipped),
        "a dictionary": (b"content-encoding: dcb", zipped),
        "nominated": (b"connection: content-encoding\r\ncontent-encoding: gzip", zipped),
        "messages": (
            b"content-type: application/grpc\r\ngrpc-encoding: gzip",
            lambda s: b"\1\0\0\0\x40" + zipped(s),
        ),
        "messages of Connect": (b"connect-content-encoding: gzip", zipped),
        "a transfer coding": (
            b"transfer-encoding: gzip, chunked",
            lambda s: b"%x\r\n%b\r\n0\r\n\r\n" % (len(s), s),
        ),
        "gzip that is br": (b"content-encoding: gzip", lambda s: bytes(brotli.compress(s * 9))),
        "br that is gzip": (b"content-encoding: br", lambda s: zipped(s * 9)),
        "deflate that is gzip": (b"content-encoding: deflate", lambda s: zipped(s * 9)),
        "zstd that is plain": (b"content-encoding: zstd", bytes),
    }
    for at, (line, encode) in enumerate(said.values()):

        def say(secret: bytes, line: bytes = line, encode: Form = encode) -> Iterator[bytes]:
            body = encode(secret)
            if b"transfer-encoding" in line:
                yield b"HTTP/1.1 200 OK\r\n" + line + b"\r\n\r\n" + body
            else:
                yield whole(body, line)

        answering(lab, API, f"/reflection/coding-{at}", say)
    answers = in_turn(proxy, API, [asking(proxy, API, f"/reflection/coding-{at}") for at in range(len(said))])
    for name, answer in zip(said, answers, strict=True):
        if proxy.name == "egress":
            is_cut = answer.status == 200 and not answer.complete
            assert answer.code in {"response.withheld", "upstream.malformed"} or is_cut, f"{name}: {answer}"


@case("S-08", "bombs with a secret in front", Harm.LEAKED)
def test_bombs_with_a_secret_in_front(lab: Lab, proxy: Proxy) -> None:
    """They are cut; what came before is masked, and the proxy goes on."""
    # The detector would unpack the whole of what the naive proxy lets through.
    much = b"\0" * (32 << 20 if proxy.name == "egress" else 1 << 16)
    packers: dict[str, Form] = {
        "gzip": lambda data: gzip.compress(data, 6, mtime=0),
        "br": lambda data: bytes(brotli.compress(data, quality=5, lgwin=22)),
        "zstd": lambda data: zstandard.ZstdCompressor(level=3).compress(data),
    }
    for coding, pack in packers.items():
        line = b"content-encoding: " + coding.encode()

        def explode(secret: bytes, pack: Form = pack, line: bytes = line) -> Iterable[bytes]:
            yield whole(pack(secret * 20 + much), line)

        answering(lab, API, f"/reflection/bomb-{coding}", explode)
    members = gzip.compress(b"", mtime=0) * 20_000
    answering(
        lab,
        API,
        "/reflection/bomb-members",
        lambda s: [whole(gzip.compress(s * 20) + members, b"content-encoding: gzip")],
    )
    for coding in (*packers, "members"):
        answer = proxy.ask(API, asking(proxy, API, f"/reflection/bomb-{coding}"))
        if proxy.name == "egress":
            assert answer.code == "response.withheld" or not answer.complete, f"{coding}: {answer}"
            assert len(answer.body) < len(much), f"{coding} was unpacked"


# Treatments and secrets of all kinds ------------------------------------------------------------


@case("S-07 S-08 S-09", "a secret that comes back where that blocks the response", Harm.LEAKED)
def test_a_secret_that_comes_back_where_that_blocks(lab: Lab, proxy: Proxy) -> None:
    """Not even its length is shown: nothing behind the place, and no end."""
    says: dict[str, Callable[[bytes], Iterable[bytes]]] = {
        "a head": lambda s: [whole(b"ok", b"x-gift: " + s)],
        "a body": lambda s: [whole(b"<" + s + b">after")],
        "chunks": lambda s: chunks([b"before", s[:5], s[5:], b"after"]),
        "a coded body": lambda s: [
            whole(gzip.compress(b"<" + s + b">after" + FILLER), b"content-encoding: gzip")
        ],
        "the end": lambda s: chunks([FILLER, s]),
        "a trailer": lambda s: [*list(chunks([b"ok"]))[:-1], b"0\r\nx-gift: " + s + b"\r\n\r\n"],
        "a hint": lambda s: [b"HTTP/1.1 103 Hints\r\nx-gift: " + s + b"\r\n\r\n", whole(b"after")],
    }
    for host in (BLOCKING, WALL):
        for at, say in enumerate(says.values()):
            answering(lab, host, f"/reflection/wall-{at}", say)
        answers = in_turn(proxy, host, [request(host, f"/reflection/wall-{at}") for at in range(len(says))])
        for name, answer in zip(says, answers, strict=True):
            if proxy.name == "egress":
                assert answer.code == "response.withheld" or (answer.status and not answer.complete), (
                    f"{name}: {answer}"
                )
                assert b"after" not in answer.body, name


@case("S-07", "long secrets, alike secrets, and secrets that are words", Harm.LEAKED)
def test_long_alike_and_common_secrets(lab: Lab, proxy: Proxy) -> None:
    """All of those that belong to a host are masked, injected there or not; nothing breaks by it."""
    extended_rules.arm(proxy)
    first, second, third = (SECRETS[name] for name in ("first", "second", "third"))

    def three(_: bytes) -> Iterator[bytes]:
        rows = [first, b" ", second, b" ", third, b"\n", first + first, second + second, b"\n"]
        rows += [
            second[:25],
            second[25:],
            b"\n",
            first[:5],
            first[5:] + b"-and-",
            second[len(first) + 5 :],
            b"\n",
        ]
        return chunks(
            [*rows, base64.b64encode(b"u:" + second), b" ", third.hex().encode()],
            b"x-a: " + first,
            b"x-b: " + third,
        )

    def words(_: bytes) -> Iterator[bytes]:
        fields = b"content-type: application/json", b"x-a: application", b"content-length-of: 2"
        yield whole(b'{"application": "content-length: 7, Application"}', *fields)

    def long(secret: bytes) -> Iterator[bytes]:
        forms = (
            bytes,
            base64.b64encode,
            lambda data: data.hex().encode(),
            lambda data: quote(data, safe="").encode(),
        )
        pieces = [form(secret) for form in forms]
        return chunks(
            [part for piece in pieces for part in (piece[:1000], piece[1000:3001], piece[3001:], b"\n")],
            b"x-a: " + secret,
        )

    answering(lab, own("second"), "/reflection/three", three)
    answering(lab, own("common"), "/reflection/words", words)
    answering(lab, own("long"), "/reflection/long", long)
    for host, path in (
        (own("second"), "three"),
        (own("common"), "words"),
        (own("framing"), "words"),
        (own("long"), "long"),
    ):
        answer = proxy.ask(host, request(host, f"/reflection/{path}"))
        assert (answer.status, answer.complete) == (200, True), f"{host}: {answer}"
        if proxy.name == "egress" and path == "words":
            assert b"***" in answer.body, f"{host}: {answer.body!r}"
        if path == "long" and any(piece in answer.raw + answer.body for piece in _pieces(SECRETS["long"])):
            raise Finding(Harm.LEAKED, "a part of the long one")
    must_not_show(proxy, "first", "second", "third")


def _pieces(secret: bytes) -> Iterator[bytes]:
    """Parts of a long secret, in the forms that they would have."""
    for form in (secret, secret.hex().encode(), base64.b64encode(secret)):
        for at in range(0, len(form) - 64, 16):
            yield form[at : at + 48]


@case("S-07", "a secret that was replaced while the response runs", Harm.LEAKED)
def test_a_secret_that_was_replaced_while_the_response_runs(lab: Lab, proxy: Proxy) -> None:
    """Neither the old value nor the new one comes back, in this response or in a later one."""
    extended_rules.arm(proxy)
    host, file, old = own("rotated"), proxy.folder / "secrets", SECRETS["rotated"]
    new = old[::-1]
    seen: list[bytes] = []
    come = asyncio.Event()

    async def late(visit: UpstreamRequest) -> None:
        await visit.body()
        await visit.begin("200 OK", (("transfer-encoding", "chunked"),))
        await visit.chunk(b"began\n")
        await come.wait()
        await visit.chunk(b"old " + old + b" new " + new[:9])
        await visit.chunk(new[9:] + b"\n")
        await visit.end_chunks()

    async def note(visit: UpstreamRequest) -> None:
        await visit.body()
        seen.append(credential(visit))
        await visit.answer(b"so far " + b" ".join(seen))

    lab.any.handle("/reflection/late", late)
    lab.any.handle("/reflection/note", note)
    try:
        proxy.ask(host, request(host, "/reflection/note"))
        with proxy.tunnel(host) as line:
            line.send(request(host, "/reflection/late"))
            line.until(b"began")
            extended_rules.put_secret(file, "rotated", new)
            while new not in seen:
                proxy.ask(host, request(host, "/reflection/note"))
            lab.internet.run(_set(come))
            line.until(b"0\r\n\r\n")
            assert set(seen) <= {old, new}
        shown = b"".join(bytes(line.received) for line in proxy.lines)
        if old in shown or new in shown:
            raise Finding(Harm.LEAKED, "a value, old or new")
    finally:
        extended_rules.put_secret(file, "rotated", old)
        if proxy.name == "egress":
            while seen[-1] != old:
                proxy.ask(host, request(host, "/reflection/note"))


async def _set(event: asyncio.Event) -> None:
    event.set()


@case("S-09", "hints that were asked for", Harm.LEAKED)
def test_hints_that_were_asked_for(lab: Lab, proxy: Proxy) -> None:
    """`Expect: 100-continue`: what may come before the answer is searched like the answer."""

    async def go_on(visit: UpstreamRequest) -> None:
        secret = credential(visit)
        await visit.channel.send(b"HTTP/1.1 100 " + secret + b"\r\nx-gift: " + secret + b"\r\n\r\n")
        await visit.channel.send(b"HTTP/1.1 102 Wait\r\nx-gift: " + base64.b64encode(secret) + b"\r\n\r\n")
        await visit.channel.exactly(4)
        visit.request.complete = True
        await visit.answer(b"done")

    lab.api.handle("/reflection/expect", go_on)
    with proxy.tunnel(API) as line:
        line.send(
            request(API, "/reflection/expect", "expect: 100-continue", "content-length: 4", method="PUT")
        )
        first = line.head()
        answer = line.send(b"body").response("PUT")
    assert (first.status, answer.body) == (100, b"done")


@case("S-76", "cookies where a rule lets them through", Harm.LEAKED)
def test_cookies_where_a_rule_lets_them_through(lab: Lab, proxy: Proxy) -> None:
    answering(
        lab,
        COOKIES,
        "/reflection/cookie",
        lambda s: [whole(b"", b"set-cookie: a=" + s, b"set-cookie: b=1; x=" + quote(s).encode())],
    )
    answer = proxy.ask(COOKIES, request(COOKIES, "/reflection/cookie"))
    assert len([name for name, _ in answer.fields if name == "set-cookie"]) == 2


@case("S-72", "everything at the level debug", Harm.LOGGED)
def test_everything_at_the_level_debug(lab: Lab, proxy: Proxy) -> None:
    """Requests of every kind, refusals, faults up and down: nothing printed holds a secret.

    What the other cases of this file print is looked at after each of them, too.
    """
    for host in KINDS:
        paths = (
            "/echo",
            "/echo?token=x",
            "/give/reason",
            "/lie/status-line",
            "/lie/no-colon",
            "/lie/more",
            "/103",
        )
        for path in paths:
            proxy.ask(host, asking(proxy, host, path, "user-agent: \x1b[31m", f"referer: https://{host}/"))
        if host in (API, STANDIN):
            continue
        # A sandbox that knows a secret, and has it written down somewhere.
        known = quote(lab.secrets.other.value, safe="")
        for target in (f"/{known}", f"/x?{known}", f"/../{known}", f"/%zz{known}"):
            proxy.ask(host, asking(proxy, host, target, f"x-known: {known}", f"cookie: {known}"))
        proxy.ask(host, f"{known} /{known} HTTP/1.1\r\nhost: {host}\r\nx-{known}: 1\r\n\r\n".encode())
    said = "\n".join([*proxy.out, *proxy.err])
    if proxy.name == "egress":
        assert "debug" in said.lower(), "it does not run at the level debug"
