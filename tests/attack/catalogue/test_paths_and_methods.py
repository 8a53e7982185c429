"""What a credential may be used for: paths and methods, in every spelling that some server understands; 6, 7.

S-16 and S-17, over both protocols. What is looked at is the host behind: it was asked for nothing that the
rules do not open, and what it was asked for is spelled the way the rules have read it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

import pytest

from tests.attack.lab.cases import case
from tests.attack.lab.client import request
from tests.attack.lab.harm import Finding, Harm
from tests.attack.lab.http2 import Http2, head
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import API, HTTP2, SCOPED
from tests.attack.lab.proxies import Egress, Proxy
from tests.proxy.lab.http1 import Request

pytestmark = pytest.mark.system("ip", "iproute2")

DENIED = (
    (400, "path.ambiguous"),
    (400, "request.malformed"),
    (403, "rule.none"),
    (403, "rule.denied"),
    (421, "request.mismatch"),
)


def read_loosely(target: str) -> str:
    """The path as the loosest of servers reads it: decoded over and over, dots and backslashes taken off."""
    path = target.partition("?")[0].partition("#")[0]
    for _ in range(4):
        path = unquote_to_bytes(path.encode("latin-1")).decode("latin-1")
    path = path.replace("\\", "/").replace("\xc0\xaf", "/").replace("\xc0\xae", ".").partition("\0")[0]
    kept: list[str] = []
    for segment in path.split("/"):
        name = segment.partition(";")[0].strip(" \t")
        if name == "..":
            del kept[-1:]
        elif name not in ("", "."):
            kept.append(name.casefold())
    return "/" + "/".join(kept)


def is_open(path: str) -> bool:
    """Whether the rules open a path to GET, read as loosely as that."""
    if re.match(r"/repos/acme/[^/]+/keys(/|$)", path):
        return False
    return (
        path == "/repos/acme"
        or path.startswith("/repos/acme/")
        or re.fullmatch(r"/echo[^/]*", path) is not None
    )


def strays(lab: Lab, proxy: Proxy) -> list[Request]:
    """What the host was asked for, and could take for something that is not open."""
    return lab.sent(proxy, lab.scoped, lambda each: not is_open(read_loosely(each.target)))


def find(lab: Lab, proxy: Proxy) -> None:
    if found := strays(lab, proxy):
        raise Finding(Harm.SENT, f"the host was asked for {found[0].target!r}")


def over_2(proxy: Proxy, host: str, fields: tuple[tuple[str, str], ...]) -> tuple[int, str]:
    """Ask in HTTP/2; status and code, 0 where the stream or the connection was ended for it."""
    with proxy.tunnel(host, alpn=("h2",)) as line:
        speaker = Http2(line)
        stream = speaker.whole(speaker.start(*fields))
        return stream.status, stream.header("egress-denied") or ""


# Paths --------------------------------------------------------------------------------------------

_UPS = (
    *(
        "..",
        "%2e%2e",
        "%2E%2e",
        ".%2e",
        "%2e.",
        "..;",
        "..;a=b",
        "..%3b",
        "%2e%2e;x",
        "..%00",
        "..%20",
        "..%09",
    ),
    *(
        "%252e%252e",
        "%25%32%65%25%32%65",
        "%c0%ae%c0%ae",
        "\xc0\xae\xc0\xae",
        "%e0%80%ae%e0%80%ae",
        "..\\",
        "....",
    ),
    *("%u002e%u002e", "\uff0e\uff0e", "%ef%bc%8e%ef%bc%8e", "..%0a", ". .", "%20..", "..%2f..", "..%5c.."),
)
_OUT = (
    "/repos/acme/{0}/{0}/user",
    "/repos/acme/app/{0}/{0}/secret/plans",
    "/repos/acme/{0}%2f{0}%2fuser",
    "/repos/acme/{0}\\{0}\\user",
    "/repos/acme/{0}%5c{0}%5cuser",
    "/repos/acme//{0}//{0}//user",
    "/repos/acme/./{0}/./{0}/user",
    "/{0}/repos/acme/{0}/{0}/user",
    "/repos/acme/x/{0}/keys/{0}/{0}/{0}/{0}/user",
)


@case("S-16", "every way up, in every place", Harm.SENT)
def test_every_way_up_in_every_place(lab: Lab, proxy: Proxy) -> None:
    ups = [up.encode().decode("latin-1") if max(up) > "\xff" else up for up in _UPS]
    targets = [shape.format(up) for up in ups for shape in _OUT]
    # All of them on as few connections as there can be; a refusal may end one.
    line = proxy.tunnel(SCOPED)
    for target in targets:
        answer = line.send(request(SCOPED, target)).response()
        proxy.expects(answer, *DENIED, (404, ""))
        if answer.header("connection") == "close" or not answer.status:
            line.close()
            line = proxy.tunnel(SCOPED)
    find(lab, proxy)


BESIDE = (
    "/user",
    "/",
    "/repos",
    "/repos/",
    "/repos/acmex",
    "/repos/acme.evil/app",
    "/repos/ac/me/app",
    "/repos/Acme/app",
    "/REPOS/acme/app",
    "/repos%2facme%2fapp",
    "/repos/acme%2fapp",
    "/repos%5cacme/app",
    "//repos/acme/app",
    "/repos//acme/app",
    "/repos/acme//app",
    "/./repos/acme/app",
    "/x/../repos/acme/app",
    "/repos;a=b/acme/app",
    "/repos/acme;/app",
    "/repos/acme/app;x",
    "/repos/acme/app%3bx",
    "/repos/acme/app%3fx=y",
    "/repos/acme/app#x",
    "/repos/acme/app%23x",
    "/repos/acme/app%00",
    "/repos/acme/app%0d%0aHost:%20x",
    "/repos/acme/app\t",
    "/repos/acme/a\x7fb",
    "/repos/acme/%",
    "/repos/acme/%2",
    "/repos/acme/%zz",
    "/repos/acme/%c0%af",
    "/repos/acme/%2525",
    "/repos/acme/app%20",
    "/repos/acme/%20app",
    "/repos/acme/%09/app",
    "repos/acme/app",
    "?/repos/acme/app",
    "*",
    "/user?/repos/acme/app",
    "/user?x=/echo",
    "/user#/repos/acme/app",
    "/echo/user",
    "/echo%2fuser",
    "/echo\\user",
    "/ech%6f%2e%2e/user",
    f"/{'~' * 20_000}",
)


@case("S-16", "paths beside those that are open", Harm.SENT)
def test_paths_beside_those_that_are_open(lab: Lab, proxy: Proxy) -> None:
    for target in BESIDE:
        answer = proxy.ask(SCOPED, request(SCOPED, target))
        proxy.expects(answer, *DENIED, (400, "request.malformed"), (414, "request.malformed"))
    if lab.wait(proxy, lambda: lab.sent(proxy, lab.scoped)):
        raise Finding(Harm.SENT, "the host was asked")


KEYS = (
    *("/repos/acme/app/keys/1", "/repos/acme/app/keys", "/repos/acme/app/keys/", "/repos/acme/app/%6beys/1"),
    *(
        "/repos/acme/app/%6B%65%79%73/1",
        "/repos/acme/app/KEYS/1",
        "/repos/acme/app/Keys/1",
        "/repos/acme/app//keys/1",
    ),
    *(
        "/repos/acme/app/./keys/1",
        "/repos/acme/app/x/../keys/1",
        "/repos/acme/app/keys;x/1",
        "/repos/acme/app;x/keys/1",
    ),
    *(
        "/repos/acme/app/keys%2f1",
        "/repos/acme/app%2fkeys%2f1",
        "/repos/acme/app%2fkeys/1",
        "/repos/acme/app\\keys\\1",
    ),
    *(
        "/repos/acme/app/keys%00/1",
        "/repos/acme/app/keys%20/1",
        "/repos/acme/app/%20keys/1",
    ),
    *(
        "/repos/acme/app/keys?/x",
        "/repos/acme/app/keys%3f/x",
        "/repos/acme/app/keys/1/2/3",
        "/repos/acme/%61pp/keys/1",
    ),
    *("/repos/acme/app/%256beys/1", "/repos/acme/app/ke%79s/%31", "/repos/acme/app/k\u0435ys/../keys/1"),
)


@case("S-16", "a path that a rule denies below one that is open", Harm.SENT)
def test_a_path_that_a_rule_denies_below_one_that_is_open(lab: Lab, proxy: Proxy) -> None:
    for target in KEYS:
        for method in ("GET", "HEAD"):
            path = target.encode().decode("latin-1")
            proxy.expects(proxy.ask(SCOPED, request(SCOPED, path, method=method)), *DENIED)
    find(lab, proxy)


@case("S-16", "the same in HTTP/2", Harm.SENT)
def test_the_same_paths_in_http2(lab: Lab, proxy: Proxy) -> None:
    """There the path is a field, and can hold what would end a line of HTTP/1.1."""
    tricks = (
        *BESIDE[:40],
        *KEYS[:20],
        "/repos/acme/../../user",
        "/repos/acme/%2e%2e/%2e%2e/user",
        "/repos/acme/app HTTP/1.1\r\nhost: evil.test\r\n\r\nGET /user",
        "/user HTTP/1.1",
        "/repos/acme/app x",
        " /repos/acme/app",
        "",
        f"https://{SCOPED}/user",
        f"//{SCOPED}/user",
    )
    for target in tricks:
        status, code = over_2(proxy, SCOPED, head(SCOPED, target.encode().decode("latin-1")))
        assert (
            proxy.name == "naive" or status == 0 or (status, code) in (*DENIED, (414, "request.malformed"))
        ), (
            target,
            status,
            code,
        )
    if lab.wait(proxy, lambda: lab.sent(proxy, lab.scoped)):
        raise Finding(Harm.SENT, "the host was asked")


OVERRIDES_OF_THE_PATH = (
    "x-original-url",
    "x-rewrite-url",
    "X_Original_URL",
    "x-original-uri",
    "X-Rewrite-Uri",
)


@case("S-16", "fields that replace the path", Harm.SENT)
def test_fields_that_replace_the_path(lab: Lab, proxy: Proxy) -> None:
    for name in OVERRIDES_OF_THE_PATH:
        answer = proxy.ask(SCOPED, request(SCOPED, "/repos/acme/app", f"{name}: /user"))
        proxy.expects(answer, (403, "path.override"), (400, "request.malformed"))
    if lab.sent(proxy, lab.scoped, lambda each: "/user" in each.raw.decode("latin-1")):
        raise Finding(Harm.SENT, "the host was given another path in a field")


PLAIN_PATHS = {
    "/repos/acme/app": "/repos/acme/app",
    "/repos/acme/app?x=/../..&y=%2e%2e": "/repos/acme/app?x=/../..&y=%2e%2e",
    "/repos/acme/%61pp": "/repos/acme/app",
    "/repos/acme/a%c3%a4": "/repos/acme/a%C3%A4",
    "/repos/acme/{a}|b": "/repos/acme/%7Ba%7D%7Cb",
    "/repos/acme/a%20b": "/repos/acme/a%20b",
    "/repos/acme/a..b/...": "/repos/acme/a..b/...",
    "/repos/acme/~x/$y!('*'),:@=+&": "/repos/acme/~x/$y!('*'),:@=+&",
    "/repos/acme": "/repos/acme",
    "/repos/acme/": "/repos/acme/",
    "/echo-gzip": "/echo-gzip",
}


@case(
    "S-16",
    "paths that are open, in odd spellings",
    naive="it sends every path, and so these as well",
    twin="test_every_way_up_in_every_place",
)
def test_paths_that_are_open_travel_as_they_were_read(lab: Lab, proxy: Proxy) -> None:
    """The good twin: what was matched is what is sent, so nobody behind can read it otherwise."""
    for target in PLAIN_PATHS:
        proxy.expects(proxy.ask(SCOPED, request(SCOPED, target)), (200, ""), (404, ""))
    assert [each.target for each in lab.sent(proxy, lab.scoped)] == [*PLAIN_PATHS.values()]


# Methods ------------------------------------------------------------------------------------------

METHODS = (
    *(
        "POST",
        "PUT",
        "PATCH",
        "DELETE",
        "OPTIONS",
        "TRACE",
        "CONNECT",
        "TRACK",
        "PROPFIND",
        "LOCK",
        "MOVE",
        "PURGE",
    ),
    *(
        "get",
        "Get",
        "gET",
        "head",
        "delete",
        "post",
        "GETX",
        "G",
        "GET\x0b",
        "GET\xa0",
        "G\u0415T",
        "GET\0",
        "GET;",
    ),
    *(
        "(GET)",
        "GET,POST",
        "GET/POST",
        '"GET"',
        "QUERY",
        "M-SEARCH",
        "X" * 300,
        "*",
        "-",
        "BREW",
        "DEBUG",
        "LINK",
    ),
)


def _sends(proxy: Proxy, method: str, path: str) -> Callable[[], tuple[int, str]]:
    spelled = method.encode().decode("latin-1") if max(method) > "\xff" else method

    def over_1() -> tuple[int, str]:
        answer = proxy.ask(SCOPED, request(SCOPED, path, method=spelled))
        return answer.status, answer.code

    return over_1


@case("S-17", "methods that no rule of the host names", Harm.SENT)
def test_methods_that_no_rule_of_the_host_names(lab: Lab, proxy: Proxy) -> None:
    refused = {
        *((403, "rule.none"), (403, "method.refused"), (400, "request.malformed"), (400, "path.ambiguous")),
        *((421, "request.mismatch"), (400, "method.refused"), (501, "request.malformed"), (0, "")),
    }
    for method in METHODS:
        found = _sends(proxy, method, "/repos/acme/app")()
        assert proxy.name == "naive" or found in refused, (method, found)
    if lab.wait(proxy, lambda: lab.sent(proxy, lab.scoped)):
        raise Finding(Harm.SENT, f"the host got {lab.sent(proxy, lab.scoped)[0].start!r}")


@case("S-17", "the same in HTTP/2", Harm.SENT)
def test_the_same_methods_in_http2(lab: Lab, proxy: Proxy) -> None:
    for method in (*METHODS, "GET /user?", "DELETE /x HTTP/1.1\r\nx: y\r\n\r\nGET", "", " GET", "GET "):
        spelled = method.encode().decode("latin-1")
        status, code = over_2(proxy, SCOPED, head(SCOPED, "/repos/acme/app", method=spelled))
        allowed = status and not code and status < 400
        assert proxy.name == "naive" or not allowed, (method, status, code)
    if lab.wait(proxy, lambda: lab.sent(proxy, lab.scoped)):
        raise Finding(Harm.SENT, f"the host got {lab.sent(proxy, lab.scoped)[0].start!r}")


OVERRIDES = (
    *(
        "x-http-method-override: DELETE",
        "X-HTTP-Method: DELETE",
        "x-method-override: DELETE",
        "_method: DELETE",
    ),
    *("X_HTTP_METHOD_OVERRIDE: DELETE", "x-http_method-override: DELETE", "x.http.method.override: DELETE"),
    *("x-http-method-override: get\r\nx-http-method-override: DELETE", "X-HTTP-METHOD-OVERRIDE:DELETE"),
)
QUERIES = (
    *("_method=DELETE", "x=y&_method=delete", "_METHOD=DELETE", "%5fmethod=DELETE", "_method[]=DELETE"),
    *("x=y;_method=DELETE", "_method%00x=DELETE", "x-http-method-override=DELETE", "%5F%6Dethod=DELETE"),
    *(
        "_method",
        "_method=",
        "+_method=DELETE",
        "_method+=DELETE",
        "x-http-method=DELETE",
        "_method%5B%5D=DELETE",
    ),
    *("X-Method-Override=DELETE", ".method=DELETE", "[method=DELETE", "x%20http+method.override=DELETE"),
)


@case("S-17", "another method than the one that is sent", Harm.SENT)
def test_another_method_than_the_one_that_is_sent(lab: Lab, proxy: Proxy) -> None:
    """In a field or in the query, by every name that a framework looks for."""
    refused = ((403, "method.override"), (400, "request.malformed"))
    for line in OVERRIDES:
        proxy.expects(proxy.ask(SCOPED, request(SCOPED, "/repos/acme/app", line)), *refused)
        body = request(
            SCOPED,
            "/repos/acme/app/issues",
            line,
            "content-type: application/json",
            method="POST",
            body=b"{}",
        )
        proxy.expects(proxy.ask(SCOPED, body), *refused)
    for query in QUERIES:
        answer = proxy.ask(SCOPED, request(SCOPED, f"/repos/acme/app?{query}"))
        proxy.expects(answer, *refused)
    if lab.wait(proxy, lambda: lab.sent(proxy, lab.scoped)):
        raise Finding(Harm.SENT, "the host was asked for another method in other words")


TYPES = (
    *(
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
    ),
    *("application/json, text/plain", "text/plain, application/json", "text/plain; a=application/json", ""),
    *("application/ json", "application\\json", "json", "*/*", "application/*", '"application/json"'),
    *("application/json/x", "application/json\x0b", "=?application/json?="),
)


@case("S-17", "a body of another kind than the rule opens", Harm.SENT)
def test_a_body_of_another_kind_than_the_rule_opens(lab: Lab, proxy: Proxy) -> None:
    def post(*lines: str) -> bytes:
        return request(SCOPED, "/repos/acme/app/issues", *lines, method="POST", body=b"{}")

    refused = ((403, "rule.none"), (400, "request.malformed"))
    for kind in TYPES:
        proxy.expects(proxy.ask(SCOPED, post(f"content-type: {kind}")), *refused)
    proxy.expects(proxy.ask(SCOPED, post()), *refused)
    two = ("content-type: application/json", "content-type: text/plain")
    for lines in (two, two[::-1], ("content-type : application/json",), ("content.type: application/json",)):
        proxy.expects(proxy.ask(SCOPED, post(*lines)), *refused)
    if lab.wait(proxy, lambda: lab.sent(proxy, lab.scoped)):
        raise Finding(Harm.SENT, "the host got a body of another kind")
    for kind in ("application/json", "Application/JSON", "application/json; charset=utf-8"):
        proxy.expects(proxy.ask(SCOPED, post(f"content-type: {kind}")), (404, ""))


@case("S-17", "TRACE and its kind, where everything is allowed", Harm.LEAKED)
def test_trace_where_everything_is_allowed(lab: Lab, proxy: Proxy) -> None:
    """An answer to TRACE is the request with all that was injected into it; `allow: all` does not open it."""
    for method in ("TRACE", "trace", "Trace"):
        for field in ((), ("max-forwards: 0",), ("max-forwards: 1",)):
            answer = proxy.ask(API, request(API, "/give/plain", *field, method=method))
            proxy.expects(answer, (403, "method.refused"))
    for host in (API, HTTP2):
        status, code = over_2(proxy, host, head(host, "/echo", method="TRACE"))
        assert proxy.name == "naive" or (status, code) in ((403, "method.refused"), (0, ""))
    if proxy.name == "egress":
        assert not lab.sent(proxy, lab.api)


def test_a_type_in_a_field_that_is_only_alike_fits_no_rule(lab: Lab, egress: Egress) -> None:
    """Section 16 of the language: an allow needs the field that is written exactly so."""
    lab.begin(egress)
    alike = "content_type: application/json"
    data = request(SCOPED, "/repos/acme/app/issues", alike, method="POST", body=b"{}")
    egress.expects(egress.ask(SCOPED, data), (403, "rule.none"))
    assert not lab.sent(egress, lab.scoped)
