"""Whose credential a request carries: ours, once, in its place, and none of the sandbox's own beside it."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.attack.catalogue import extended_rules
from tests.attack.catalogue.extended_rules import API_KEYS, SECRETS, STRICT, STRIPPED, own
from tests.attack.lab.attack_spellings import MARK, arrived, in_turn, tell, try_all
from tests.attack.lab.cases import case
from tests.attack.lab.client import basic, request
from tests.attack.lab.harm import Finding, Harm
from tests.attack.lab.http2 import Http2, head
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import ANY, API, BASIC, COOKIE, KEYED, OTHER, PLAIN, QUERY, STANDIN
from tests.attack.lab.proxies import Egress, Proxy, running
from tests.proxy.lab.http1 import Request
from tests.proxy.lab.upstream_request import UpstreamRequest
from tests.proxy.serve_process import until

pytestmark = pytest.mark.system("ip", "iproute2")

MINE = "mine-of-the-sandbox"
REFUSED = (400, "request.malformed")


@pytest.fixture
def egress(wide: Egress) -> Egress:
    return wide


def ours(lab: Lab, host: str) -> str:
    """What a host's credential looks like on the wire, where it has one form."""
    api, shapes = (each.value.decode() for each in (lab.secrets.api, lab.secrets.other))
    forms = {API: f"Bearer {api}", KEYED: shapes, STANDIN: shapes, BASIC: basic("me", shapes)}
    forms[STRIPPED] = f"Bearer {shapes}"
    return forms[host]


def only_ours(lab: Lab, sent: Iterable[Request], host: str, name: str) -> None:
    """Hold requests to our one credential in the slot, and to nothing of the sandbox's anywhere."""
    for each in sent:
        if MINE.encode() in each.raw:
            raise Finding(Harm.SENT, f"what the sandbox brought went along: {each.fields}")
        if each.headers(name) != [ours(lab, host)]:
            raise Finding(Harm.BARE, f"the credential is {each.headers(name)}")


def ask_with(lab: Lab, proxy: Proxy, host: str, heads: Iterable[tuple[str, ...]]) -> list[Request]:
    """Ask with each of these sets of lines; what came of it. Egress has to let all of them through."""
    data = [request(host, "/status?code=200", *lines) for lines in heads]
    for at, answer in enumerate(in_turn(proxy, host, data)):
        if proxy.name == "egress" and answer.status != 200:
            raise AssertionError(f"{data[at]!r} is answered {answer}")
    site = lab.any if host not in lab.internet.sites else lab.site(host)
    # All of them: a naive proxy that stops one would hide what it does with the others.
    return lab.wait(proxy, lambda: found if len(found := lab.requests(proxy, site)) >= len(data) else [])


# Its own beside ours ----------------------------------------------------------------------------

AUTHORIZATIONS = (
    ("authorization: Bearer {}",),
    ("Authorization: Bearer {}",),
    ("AUTHORIZATION: Bearer {}",),
    ("aUtHoRiZaTiOn:Bearer {}",),
    ("Authorization:\t Bearer {} \t",),
    ("authorization: Basic {}",),
    ("authorization: Digest username={}",),
    ("authorization: {}",),
    ("authorization:", "authorization: Bearer {}"),
    ("authorization: Bearer {}", "Authorization: Bearer {}", "AUTHORIZATION: Basic {}"),
    ("authorization: Bearer {}, Bearer {}",),
    ("connection: authorization", "authorization: Bearer {}"),
    ("connection: close, Authorization", "authorization: Bearer {}"),
    ("connection: keep-alive", "connection: AUTHORIZATION", "Authorization: Bearer {}"),
    ("proxy-authorization: Bearer {}",),
    ("Proxy-Authorization: Basic {}", "connection: proxy-authorization"),
    ("proxy-authorization: Bearer {}", "authorization: Bearer {}", "proxy-connection: {}"),
    ("keep-alive: {}", "te: {}", "authorization: {}"),
)


@case("S-04", "its own Authorization in every spelling", Harm.SENT)
def test_its_own_authorization_in_every_spelling(lab: Lab, proxy: Proxy) -> None:
    heads = [tuple(line.replace("{}", MINE) for line in lines) for lines in AUTHORIZATIONS]
    for host in (API, BASIC):
        only_ours(lab, ask_with(lab, proxy, host, heads), host, "authorization")
        lab.begin(proxy)


@case("S-04", "a header for the credential that servers read as the same", Harm.SENT)
def test_a_header_that_servers_read_as_the_same(lab: Lab, proxy: Proxy) -> None:
    names = ("x-api-key", "X-API-KEY", "x_api_key", "X_Api-Key", "x-api_key", "X_API_KEY")
    heads: list[tuple[str, ...]] = [(f"{name}: {MINE}",) for name in names]
    heads += [(f"{name}: {MINE}", f"x-api-key: {MINE}", f"connection: {name}") for name in names]
    only_ours(lab, ask_with(lab, proxy, KEYED, heads), KEYED, "x-api-key")


@case("S-04", "a header for the credential with a dot for a dash", Harm.SENT)
def test_a_header_with_another_mark_for_the_dash(lab: Lab, proxy: Proxy) -> None:
    """Servers for CGI turn every odd character of a name into `_`."""
    names = ("x.api.key", "x-api.key", "x!api!key", "x~api~key", "x+api+key", "x'api'key", "x|api|key")
    heads = [(f"{name}: {MINE}",) for name in names]
    only_ours(lab, ask_with(lab, proxy, KEYED, heads), KEYED, "x-api-key")


@case("S-04", "its own credential in another slot of the service", Harm.SENT)
def test_its_own_credential_in_another_slot_of_the_service(lab: Lab, proxy: Proxy) -> None:
    """With it the sandbox would work in the account of a stranger, who reads along."""
    names = ("x-api-key", "X-API-KEY", "x_api_key", "X_Api-Key", "x.api.key", "x!api!key")
    heads: list[tuple[str, ...]] = [(f"{name}: {MINE}",) for name in names]
    heads += [(f"x-api-key: {MINE}", f"X_API_KEY: {MINE}", "connection: x-api-key")]
    heads += [(f"cookie: {cookie}",) for cookie in (f"session={MINE}", f"a=b; SESSION={MINE}; c=d")]
    heads += [(f"authorization: Bearer {MINE}", f"x-api-key: {MINE}", f"cookie: session={MINE}")]
    only_ours(lab, ask_with(lab, proxy, STRIPPED, heads), STRIPPED, "authorization")
    lab.begin(proxy)
    queries = (f"key={MINE}", f"KEY={MINE}&a=b", f"k%65y={MINE}", f"a=b&key={MINE}&key[]={MINE}")
    data = [request(STRIPPED, f"/status?code=200&{query}") for query in queries]
    in_turn(proxy, STRIPPED, data)
    sent = lab.wait(proxy, lambda: found if len(found := lab.requests(proxy, lab.any)) >= len(data) else [])
    only_ours(lab, sent, STRIPPED, "authorization")


SMUGGLED = {
    "a blank in front of the colon": "authorization : Bearer {}",
    "a tab in front of the colon": "authorization\t: Bearer {}",
    "a NUL in the name": "authorization\0: Bearer {}",
    "a high blank": "\xa0authorization: Bearer {}",
    "folded": "x: y\r\n authorization: Bearer {}",
    "folded under it": "authorization:\r\n Bearer {}",
    "behind a CR": "x: y\rauthorization: Bearer {}",
    "behind a LF": "x: y\nauthorization: Bearer {}",
    "behind a NUL": "x: y\0authorization: Bearer {}",
    "behind a line of the head": "\r\nauthorization: Bearer {}",
}


@case("S-04", "its own Authorization where only some parsers see one", Harm.SENT)
def test_its_own_authorization_where_only_some_parsers_see_one(lab: Lab, proxy: Proxy) -> None:
    for host in (API, KEYED):
        shapes = {
            name: request(host, "/small", line.replace("{}", MARK.decode()))
            for name, line in SMUGGLED.items()
        }
        post = request(host, "/sink", "transfer-encoding: chunked", method="POST") + b"2\r\nok\r\n0\r\n"
        for name in ("authorization", "Authorization", "proxy-authorization", "cookie", "host"):
            shapes[f"{name} in the trailers"] = post + f"{name}: Bearer M4RK\r\n\r\n".encode()
        shapes.pop("behind a line of the head")
        if arrived := try_all(lab, proxy, host, shapes, REFUSED):
            raise Finding(Harm.SENT, f"passed on beside ours: {arrived}")


@case("S-04", "trailers of a request that reads as its head", Harm.SENT)
def test_trailers_that_a_server_joins_to_the_head(lab: Lab, proxy: Proxy) -> None:
    """Those that are no credential are not refused, and do not travel: they come after the decision."""
    data = request(KEYED, "/sink", "transfer-encoding: chunked", "trailer: x-api-key", method="POST")
    data += b"2\r\nok\r\n0\r\nx-api-key: %b\r\nx_api_key: %b\r\nx-mark: 1\r\n\r\n" % ((MINE.encode(),) * 2)
    assert proxy.ask(KEYED, data).status == 200
    found = lab.sent(proxy, lab.site(KEYED))
    assert [each.body for each in found] == [b"ok"]
    if any(each.trailers for each in found):
        raise Finding(Harm.SENT, f"the host was sent {found[0].trailers}")


@case("S-04", "its own query parameter in every spelling", Harm.SENT)
def test_its_own_query_parameter_in_every_spelling(lab: Lab, proxy: Proxy) -> None:
    queries = ["key={}", "k%65y={}", "%6b%65%79={}", "%6B%65%79={}", "key={}&key={}", "a=1&key={}&b=2"]
    queries += ["key={}&&", "&key={}", "key", "key=", "key=&key={}", "key={}={}", "key=%7B{}%7D"]
    _hold_queries(lab, proxy, queries)


@case("S-04", "its own query parameter as the loosest of servers reads it", Harm.SENT)
def test_its_own_query_parameter_as_the_loosest_server_reads_it(lab: Lab, proxy: Proxy) -> None:
    """Regardless of case, with blanks around it, cut at a NUL, and as an array."""
    queries = ["KEY={}", "Key={}", "%4BEY={}", "key%20={}", "+key={}", "%20key={}", "key+={}", "key%00={}"]
    queries += ["key%00x={}", "key[]={}", "key%5b%5d={}", "key[0]={}"]
    _hold_queries(lab, proxy, queries)
    lab.begin(proxy)
    _hold_queries(lab, proxy, ("api.key={}", "api+key={}", "API_KEY={}", "api[key={}"), API_KEYS)


def _hold_queries(lab: Lab, proxy: Proxy, queries: Iterable[str], host: str = QUERY) -> None:
    data = [request(host, f"/status?code=200&{query.replace('{}', MINE)}") for query in queries]
    in_turn(proxy, host, data)
    site = lab.any if host == API_KEYS else lab.site(host)
    sent = lab.wait(proxy, lambda: found if len(found := lab.requests(proxy, site)) >= len(data) else [])
    if proxy.name == "egress":
        assert len(sent) == len(data), "some were not sent at all"
    for each in sent:
        if MINE in each.target:
            raise Finding(Harm.SENT, f"what the sandbox brought went along: {each.target}")
        value = lab.secrets.other.value.decode()
        if [unquote(part.partition("=")[2]) for part in each.target.split("&") if "key" in part] != [value]:
            raise Finding(Harm.BARE, f"the credential is not in {each.target}")


@case("S-04", "a query in which only some servers see the parameter", Harm.SENT)
def test_a_query_in_which_only_some_servers_see_the_parameter(lab: Lab, proxy: Proxy) -> None:
    targets = {
        query: f"/small?{query}" for query in ("a=1;key=M4RK", "key;x=M4RK", ";key=M4RK", "a;k%65y=M4RK")
    }
    shapes = {name: request(QUERY, target) for name, target in targets.items()}
    if arrived := try_all(lab, proxy, QUERY, shapes, REFUSED):
        raise Finding(Harm.SENT, f"passed on beside ours: {arrived}")


@case("S-04", "its own cookie in every spelling", Harm.SENT)
def test_its_own_cookie_in_every_spelling(lab: Lab, proxy: Proxy) -> None:
    cookies = ["session={}", "a=b; session={}", "session={}; session={}", "session ={}", " session={}"]
    cookies += [
        "a=b;session={}",
        'a="b; session={}"',
        "$Version=1; session={}; $Path=/",
        "session",
        "session=",
    ]
    cookies += [
        "session={}\r\ncookie: session={}",
        "a=b\r\nCookie: session={}",
        "session={};",
        ";;session={}",
    ]
    _hold_cookies(lab, proxy, cookies)


@case("S-04", "its own cookie in another case", Harm.SENT)
def test_its_own_cookie_in_another_case(lab: Lab, proxy: Proxy) -> None:
    """Servers on .NET read the names of cookies regardless of case."""
    _hold_cookies(lab, proxy, ("SESSION={}", "Session={}", "a=b; sEssion={}"))


def _hold_cookies(lab: Lab, proxy: Proxy, cookies: Iterable[str]) -> None:
    sent = ask_with(lab, proxy, COOKIE, [(f"cookie: {each.replace('{}', MINE)}",) for each in cookies])
    for each in sent:
        if MINE in "".join(each.headers("cookie")):
            raise Finding(Harm.SENT, f"what the sandbox brought went along: {each.headers('cookie')}")
        value = f"session={lab.secrets.other.value.decode()}"
        if len(each.headers("cookie")) != 1 or not each.headers("cookie")[0].endswith(value):
            raise Finding(Harm.BARE, f"the cookie is {each.headers('cookie')}")


@case("S-04", "cookies in which only some servers see the one", Harm.SENT)
def test_cookies_in_which_only_some_servers_see_the_one(lab: Lab, proxy: Proxy) -> None:
    shapes = {
        "behind a comma": request(COOKIE, "/small", "cookie: a=b,session=M4RK"),
        "behind a comma and a blank": request(COOKIE, "/small", "cookie: a=b, session=M4RK"),
        "behind a NUL": request(COOKIE, "/small", "cookie: a=b\0session=M4RK"),
    }
    if arrived := try_all(lab, proxy, COOKIE, shapes, REFUSED):
        raise Finding(Harm.SENT, f"passed on beside ours: {arrived}")


@case("S-04", "its own credential in HTTP/2, in pieces and in capitals", Harm.SENT)
def test_its_own_credential_in_http2(lab: Lab, proxy: Proxy) -> None:
    """To a host that speaks HTTP/1.1: what are fields here become lines there."""
    heads = (
        (API, ("authorization", f"Bearer {MINE}")),
        (API, ("authorization", f"Bearer {MINE}"), ("authorization", f"Basic {MINE}")),
        (API, ("proxy-authorization", f"Bearer {MINE}")),
        (API, ("Authorization", f"Bearer {MINE}")),
        (API, ("connection", "authorization"), ("authorization", f"Bearer {MINE}")),
        (API, ("x", f"y\r\nauthorization: Bearer {MINE}")),
        (API, ("x\r\nauthorization", f"Bearer {MINE}")),
        (API, ("authorization ", f"Bearer {MINE}")),
        (KEYED, ("x_api_key", MINE)),
        (KEYED, ("X-Api-Key", MINE)),
        (COOKIE, ("cookie", "a=b"), ("cookie", f"session={MINE}"), ("cookie", "c=d")),
        (COOKIE, ("cookie", "a=b"), ("cookie", f"c=d; session={MINE}")),
    )
    for host, *fields in heads:
        with proxy.tunnel(host, alpn=("h2",)) as line:
            Http2(line).ask(host, "/status?code=200", *fields)
    passed = [each for host in (API, KEYED, COOKIE) for each in lab.sent(proxy, lab.site(host))]
    if any(MINE.encode() in each.raw for each in passed):
        raise Finding(Harm.SENT, "what the sandbox brought went along")
    wanted = {lab.secrets.api.value, lab.secrets.other.value}
    assert all(any(value in each.raw for value in wanted) for each in passed)


@case("S-04", "trailers of HTTP/2 with a credential", Harm.SENT)
def test_trailers_of_http2_with_a_credential(lab: Lab, proxy: Proxy) -> None:
    with proxy.tunnel(API, alpn=("h2",)) as line:
        speaker = Http2(line)
        stream = speaker.start(*head(API, "/echo", method="POST"), end=False)
        speaker.data(stream, b"body")
        speaker.h2.send_headers(stream.id, [("authorization", MINE), ("x-mark", MINE)], end_stream=True)
        speaker.flush().whole(stream)
    if proxy.name == "egress":
        (sent,) = lab.sent(proxy, lab.api)
        assert (sent.body, sent.trailers) == (b"body", ())
        assert MINE.encode() not in lab.heard(proxy, API)
        return
    # Trailers are lost on it; what it does with a head in two parts is the same fault.
    proxy.ask(API, request(API, "/echo", f"authorization: Bearer {MINE}"))
    if lab.sent(proxy, lab.api, lambda each: MINE.encode() in each.raw):
        raise Finding(Harm.SENT, "what the sandbox brought went along")


@case("S-04", "a value in the slot where that refuses the request", Harm.SENT)
def test_a_value_in_the_slot_where_that_refuses_the_request(lab: Lab, proxy: Proxy) -> None:
    """`on_existing: fail`: no spelling gets by, and without a value the request goes out."""
    given = {
        "fail-header": (("x-api-key: M4RK",), ("X_Api_Key: M4RK",), ("x-api-key:", "x_api_key: M4RK")),
        "fail-basic": (("authorization: Bearer M4RK",), ("Authorization: Basic M4RK",)),
        "fail-cookie": (("cookie: session=M4RK",), ("cookie: a=b", "Cookie: c=d; session =M4RK")),
    }
    shapes: dict[str, dict[str, bytes]] = {
        name: {repr(lines): request(STRICT[name], "/status?code=200", *lines) for lines in heads}
        for name, heads in given.items()
    }
    queries = ("key=M4RK", "k%65y=M4RK", "a=b&key=M4RK")
    shapes["fail-query"] = {q: request(STRICT["fail-query"], f"/status?code=200&{q}") for q in queries}
    passed: list[str] = []
    for name, each in shapes.items():
        assert proxy.ask(STRICT[name], request(STRICT[name], "/status?code=200")).status == 200
        lab.begin(proxy)
        for shape, data in each.items():
            answer = proxy.ask(STRICT[name], data)
            proxy.expects(answer, (403, "secret.existing"))
            passed += [shape] if lab.sent(proxy, lab.any) else []
    if passed:
        raise Finding(Harm.SENT, f"passed on: {passed}")


# Stand-ins --------------------------------------------------------------------------------------


@case("S-06", "a stand-in where the rules do not expect it", Harm.SENT)
def test_a_stand_in_where_the_rules_do_not_expect_it(lab: Lab, proxy: Proxy) -> None:
    """Never swapped, on the very host that it is for: not in a path, a query, a cookie, or another header."""
    mark = proxy.stand_in()
    coded = "".join(f"%{ord(char):02x}" for char in mark)
    shapes = {
        "path": request(STANDIN, f"/status/{mark}"),
        "query": request(STANDIN, f"/status?t={mark}"),
        "query, escaped": request(STANDIN, f"/status?t={coded}"),
        "name of a parameter": request(STANDIN, f"/status?{mark}=1"),
        "cookie": request(STANDIN, "/status", f"cookie: a={mark}"),
        "another header": request(STANDIN, "/status", f"x-other: {mark}"),
        "authorization": request(STANDIN, "/status", f"authorization: Bearer {mark}"),
        "basic": request(STANDIN, "/status", f"authorization: {basic('me', mark)}"),
        "basic, as the user": request(STANDIN, "/status", f"authorization: {basic(mark, 'x')}"),
        "twice in its place": request(STANDIN, "/status", f"x-api-key: {mark} {mark}"),
        "twice": request(STANDIN, "/status", f"x-api-key: {mark}", f"x-api-key: {mark}"),
        "in its place and elsewhere": request(STANDIN, "/status", f"x-api-key: {mark}", f"x-other: {mark}"),
        "referer": request(STANDIN, "/status", f"referer: https://evil.test/?{mark}"),
        "user agent": request(STANDIN, "/status", f"user-agent: {mark}"),
        "a header that is taken off": request(STANDIN, "/status", f"proxy-authorization: Basic {mark}"),
    }
    for name, data in shapes.items():
        answer = proxy.ask(STANDIN, data)
        if name != "a header that is taken off":
            proxy.expects(answer, (403, "placeholder.misplaced"))
    if lab.sent(proxy, lab.site(STANDIN), lambda each: lab.secrets.other.value in each.raw):
        raise Finding(Harm.SENT, "it was swapped where no rule says so")


@case("S-06", "a stand-in in a body", Harm.SENT)
def test_a_stand_in_in_a_body(lab: Lab, proxy: Proxy) -> None:
    """It travels as it is: worth nothing, wherever it ends."""
    mark = proxy.stand_in().encode()
    for host in (STANDIN, OTHER):
        proxy.ask(host, request(host, "/sink", method="POST", body=b"t=" + mark))
        (sent,) = lab.sent(proxy, lab.site(host))
        assert sent.body == b"t=" + mark
    # The twin: what the naive proxy does in a head.
    proxy.ask(STANDIN, request(STANDIN, "/sink", f"x-other: {proxy.stand_in()}"))
    if lab.sent(proxy, lab.site(STANDIN), lambda each: lab.secrets.other.value in each.raw):
        raise Finding(Harm.SENT, "it was swapped where no rule says so")


@case("S-05", "a stand-in at other hosts, in every place and spelling", Harm.SENT)
def test_a_stand_in_at_other_hosts(lab: Lab, proxy: Proxy) -> None:
    mark = proxy.stand_in()
    coded = "".join(f"%{ord(char):02X}" for char in mark)
    key = f"x-api-key: {mark}"
    answer = proxy.say(request(PLAIN, f"http://{PLAIN}/status", key))
    proxy.expects(answer, (403, "placeholder.misplaced"))
    for host in (OTHER, API, KEYED):
        lines = [key, f"authorization: Bearer {mark}", f"authorization: {basic('me', mark)}"]
        lines += [f"cookie: session={mark}", f"x-y: prefix-{mark}-suffix", f"{mark}: y", f"x-y: {coded}"]
        data = [request(host, "/status", line) for line in lines]
        data += [request(host, target) for target in (f"/{mark}", f"/status?a={coded}", f"/{coded}?{mark}")]
        for each in data:
            proxy.expects(proxy.ask(host, each), (403, "placeholder.misplaced"))
        # Which swaps it everywhere.
        if lab.sent(proxy, lab.site(host), lambda each: b"/status" in each.raw):
            raise Finding(Harm.SENT, f"{host} was sent it")


# None at all ------------------------------------------------------------------------------------


@case("S-37", "a secret that cannot be had", Harm.BARE)
def test_a_secret_that_cannot_be_had(lab: Lab, proxy: Proxy) -> None:
    """Taken away, or made into what no credential may be: no request goes out without one, by any way."""
    extended_rules.arm(proxy)
    host, folder = own("fleeting"), proxy.folder / "secrets"
    file = folder / "fleeting"
    asks = [request(host, "/status?code=200", method=method) for method in ("GET", "HEAD", "PUT")]
    asks.append(request(host, "/sink", method="POST", body=b"data"))
    try:
        for spoil in _SPOILT:
            spoil(file)
            if proxy.name == "egress":
                # What was read a moment ago may still be sent; from the first refusal on, nothing is.
                until(lambda: proxy.ask(host, asks[0]).code == "secret.unavailable", "it to be noticed")
            for data in asks:
                proxy.expects(proxy.ask(host, data), (403, "secret.unavailable"))
            if file.is_dir():
                file.rmdir()
            if lab.sent(proxy, lab.any, lambda each: not each.headers("authorization")):
                raise Finding(Harm.BARE, "a request went out without its credential")
    finally:
        extended_rules.put_secret(folder, "fleeting", SECRETS["fleeting"])
    if proxy.name == "egress":
        until(lambda: proxy.ask(host, asks[0]).status == 200, "it to be there again")


def _a_folder(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.mkdir()


_SPOILT = (
    lambda file: file.unlink(),
    lambda file: file.write_bytes(b""),
    lambda file: file.write_bytes(b" \r\n\n"),
    lambda file: file.write_bytes(b"one-line-of-it\nauthorization: Bearer another"),
    lambda file: file.write_bytes(b"nul\0in-the-middle-of-it"),
    lambda file: file.write_bytes("ein-größeres-geheimnis".encode()),
    lambda file: file.write_bytes(b"short"),
    lambda file: file.write_bytes(b"x" * (1 << 20)),
    _a_folder,
)


_INSIDE: dict[str, bytes] = {
    "a line end": b"\n",
    "a carriage return": b"\r",
    "both": b"\r\n",
    "a field": b"\r\nx-smuggled: 1",
    "a field behind a carriage return": b"\rx-smuggled: 1",
    "a request": f"\r\n\r\nDELETE /smuggled HTTP/1.1\r\nhost: {own('fleeting')}\r\n\r\n".encode(),
    "a NUL": b"\0",
    "an escape": b"\x1b[2J",
    "a tab": b"\t",
    "a delete": b"\x7f",
}


@case("S-35", "line ends and control bytes in the file of a secret", Harm.SENT)
def test_line_ends_and_control_bytes_in_a_secret(lab: Lab, proxy: Proxy) -> None:
    """Nothing of it is sent, neither what stands before the byte nor what stands behind it."""
    fronts = {what: f"front-{secrets.token_hex(9)}".encode() for what in _INSIDE}
    files = {what: f"odd-{at}" for at, what in enumerate(_INSIDE)}
    text = lab.rules() + "".join(
        f"  {own(name)}: {{allow: all, inject: [{{bearer: {name}}}]}}\n" for name in files.values()
    )
    for name in files.values():
        entry = f'secrets:\n  {name}: {{from: "file:{{secrets}}/{name}", hosts: [{own(name)}]}}\n'
        text = text.replace("secrets:\n", entry, 1)
    other = lab.make_egress(text) if isinstance(proxy, Egress) else lab.make_naive()
    (other.folder / "secrets").mkdir(mode=0o700, exist_ok=True)
    for what, inside in _INSIDE.items():
        bad = fronts[what] + inside + b"behind-" + fronts[what]
        extended_rules.put_secret(other.folder / "secrets", files[what], bad)
    with running(other) as tried:
        lab.begin(tried)
        for name in files.values():
            answer = tell(tried, own(name), request(own(name), "/small", "connection: close"))
            tried.expects(answer, (403, "secret.unavailable"))
        # At the naive proxy, each of them has to have come.
        if sent := arrived(lab, tried, f"*.{ANY}", fronts):
            raise Finding(Harm.SENT, f"secrets with something inside: {', '.join(sent)}")
        assert tried.said.count("contains a control character") >= len(_INSIDE), "nobody is told why"
        lab.hold(tried)


class _Traffic:
    """Clients that ask on and on; what the host was sent meanwhile, and by whom it could have been."""

    def __init__(self, proxy: Proxy, host: str, values: Sequence[bytes]) -> None:
        self.seen: list[tuple[int, list[str]]] = []
        """The newest value that had come when a request began, and what it came with."""
        self.newest = 0
        self.answers: Counter[tuple[int, str]] = Counter()
        self._proxy, self._host = proxy, host
        self._lines = [f"Bearer {value.decode()}" for value in values]
        self._over = threading.Event()

    async def note(self, visit: UpstreamRequest) -> None:
        """The host."""
        await visit.body()
        since, found = int(visit.request.target.rpartition("=")[2]), visit.request.headers("authorization")
        self.seen.append((since, found))
        if (number := self.number(found)) is not None:
            self.newest = max(self.newest, number)
        await visit.answer(b"ok")

    def number(self, found: list[str]) -> int | None:
        """Which of the values it is; None for no whole one."""
        return self._lines.index(found[0]) if len(found) == 1 and found[0] in self._lines else None

    @contextmanager
    def flows(self) -> Iterator[None]:
        with ThreadPoolExecutor(4) as pool:
            clients = [pool.submit(self._ask, is_alone=at % 2 == 0) for at in range(4)]
            try:
                yield
            finally:
                self._over.set()
        for client in clients:
            client.result()

    def _ask(self, *, is_alone: bool) -> None:
        lines = ("connection: close",) if is_alone else ()
        while not self._over.is_set():
            with self._proxy.tunnel(self._host) as line:
                for _ in range(1 if is_alone else 50):
                    asked = request(self._host, f"/rotation?since={self.newest}", *lines)
                    answer = line.send(asked).response()
                    self.answers[answer.status, answer.code] += 1
                    if answer.status != 200 or self._over.is_set():
                        break

    def goes_on(self) -> None:
        """Wait until so many more have been answered."""
        enough = self.answers.total() + 20
        until(lambda: self.answers.total() >= enough, "the clients to be answered")


def _renamed(folder: Path, value: bytes, traffic: _Traffic) -> None:
    extended_rules.put_secret(folder, "rotated", value)


def _taken_away_first(folder: Path, value: bytes, traffic: _Traffic) -> None:
    (folder / "rotated").unlink()
    traffic.goes_on()
    extended_rules.put_secret(folder, "rotated", value)


def _emptied_first(folder: Path, value: bytes, traffic: _Traffic) -> None:
    (folder / "rotated").write_bytes(b"")
    traffic.goes_on()
    (folder / "rotated").write_bytes(value)


@case("S-36", "a secret that is replaced under traffic", Harm.BARE)
def test_a_secret_that_is_replaced_under_traffic(lab: Lab, proxy: Proxy) -> None:
    """In one step, by way of no file at all, and by way of an empty one, as careless scripts do it.

    Each request goes out with one whole value or not at all. One that begins when a new value has been seen
    goes out with that, or with a newer one: never with the old one again.
    """
    extended_rules.arm(proxy)
    host, folder = own("rotated"), proxy.folder / "secrets"
    values = [SECRETS["rotated"], *(f"rot_{secrets.token_hex(16)}".encode() for _ in range(3))]
    traffic = _Traffic(proxy, host, values)
    lab.any.handle("/rotation", traffic.note)
    try:
        with traffic.flows():
            traffic.goes_on()
            for number, replace in enumerate((_renamed, _taken_away_first, _emptied_first), 1):
                replace(folder, values[number], traffic)
                until(lambda n=number: traffic.newest >= n, "the new value to be in use")  # type: ignore[misc]
                traffic.goes_on()
    finally:
        extended_rules.put_secret(folder, "rotated", values[0])
        if proxy.name == "egress":
            until(lambda: _is_sent(lab, proxy, host, values[0]), "the first one to be in use again")
    if proxy.name == "egress":
        assert traffic.answers.keys() <= {(200, ""), (403, "secret.unavailable")}, traffic.answers
    for since, found in traffic.seen:
        sent = traffic.number(found)
        if sent is None:
            raise Finding(Harm.BARE, f"a request went out with {len(found)} values, and not with a whole one")
        if sent < since:
            raise Finding(Harm.SENT, f"value {sent} was sent when {since} had been seen")


def _is_sent(lab: Lab, proxy: Proxy, host: str, value: bytes) -> bool:
    mark = secrets.token_hex(8)
    proxy.ask(host, request(host, f"/small?mark={mark}"))
    return any(mark in each.target and value in each.raw for each in lab.requests(proxy, lab.any))


@case("S-04", "two credentials, each in its place", Harm.SENT)
def test_two_credentials_each_in_its_place(lab: Lab, proxy: Proxy) -> None:
    """The one in the slot of the other is the sandbox's own, and goes."""
    extended_rules.arm(proxy)
    host = own("second")
    lines = (f"authorization: Bearer {MINE}", f"x-api-key: {MINE}", f"x_api_key: {MINE}")
    proxy.ask(host, request(host, "/status?code=200", *lines))
    (sent,) = lab.sent(proxy, lab.any)
    if MINE.encode() in sent.raw:
        raise Finding(Harm.SENT, "what the sandbox brought went along")
    assert sent.headers("authorization") == [f"Bearer {SECRETS['first'].decode()}"]
    assert sent.headers("x-api-key") == [SECRETS["second"].decode()]
