"""Whole heads: what each attribute says, and every reason to refuse one."""

from __future__ import annotations

import pytest

from egress.errors import WireError
from egress.http1 import (
    CHUNKED,
    NO_BODY,
    UNTIL_CLOSE,
    Framing,
    Informational,
    MessageLimits,
    RequestHead,
    ResponseHead,
)
from egress.http1.heads import parse_request_head, parse_response_head


def request(*lines: str, first: str = "POST /x HTTP/1.1", host: str = "Host: a.example") -> RequestHead:
    block = "\r\n".join([first, *([host] if host else []), *lines, "", ""])
    return parse_request_head(block.encode("latin-1"), MessageLimits())


def response(
    *lines: str, first: str = "HTTP/1.1 200 OK", method: str = "GET", asked: tuple[str, ...] = ()
) -> ResponseHead | Informational:
    return parse_response_head(
        "\r\n".join([first, *lines, "", ""]).encode("latin-1"), MessageLimits(), method, asked
    )


def final(
    *lines: str, first: str = "HTTP/1.1 200 OK", method: str = "GET", asked: tuple[str, ...] = ()
) -> ResponseHead:
    head = response(*lines, first=first, method=method, asked=asked)
    assert isinstance(head, ResponseHead)
    return head


def test_a_plain_request() -> None:
    assert request("Accept: */*") == RequestHead(
        method="POST",
        target="/x",
        form="origin",
        headers=(("host", "a.example"), ("accept", "*/*")),
        framing=NO_BODY,
        host="a.example",
    )


def test_a_request_with_everything_the_head_decides() -> None:
    head = request(
        "Content-Length: 5", "Expect: 100-Continue", "Connection: close, Upgrade", "Upgrade: WebSocket"
    )
    assert head.framing == Framing.sized(5)
    assert (head.keep_alive, head.expect_continue, head.upgrade) == (False, True, ("websocket",))


def test_an_absolute_form_names_its_authority_beside_the_host() -> None:
    head = request(first="GET http://b.example:8/x HTTP/1.1")
    assert (head.form, head.authority, head.host, head.target) == (
        "absolute",
        "b.example:8",
        "a.example",
        "http://b.example:8/x",
    )


def test_http_1_0_needs_no_host_and_gets_neither_reuse_nor_upgrade() -> None:
    head = request("Connection: keep-alive, upgrade", "Upgrade: websocket", first="GET / HTTP/1.0", host="")
    assert (head.version, head.host, head.keep_alive, head.upgrade) == ("1.0", "", False, ())


def test_http_1_0_has_no_expectations() -> None:
    head = request("Content-Length: 5", "Expect: tea", first="POST / HTTP/1.0")
    assert not head.expect_continue


def test_nobody_waits_for_a_body_that_will_not_come() -> None:
    assert not request("Expect: 100-continue").expect_continue


def test_chunked_requests() -> None:
    assert request("Transfer-Encoding: chunked").framing == CHUNKED


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["Host: b.example"], 400),
        (["Host: a.example"], 400),
        (["Content-Length: 5", "Content-Length: 5"], 400),
        (["Content-Length: 5", "Transfer-Encoding: chunked"], 400),
        (["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], 400),
        (["Transfer-Encoding: chunked", "transfer-encoding: identity"], 400),
        (["Transfer-Encoding: gzip"], 501),
        (["Expect: tea"], 417),
        (["Expect: 100-continue", "Expect: 100-continue"], 400),
        (["Expect: 100-continue, 100-continue"], 417),
        (["Connection: host"], 400),
        (["Connection: upgrade", "Upgrade: a b"], 400),
        (["A: b"] * 128, 431),
    ],
)
def test_refuses_a_request_with(lines: list[str], status: int) -> None:
    with pytest.raises(WireError) as refusal:
        request(*lines)
    assert refusal.value.status == status


@pytest.mark.parametrize(
    "host", ["", "Host:", "Host: ", "Host: a b", "Host: a,b", "Host: a@b", "Host: a/", "Host: [a"]
)
def test_refuses_a_request_without_exactly_one_proper_host(host: str) -> None:
    with pytest.raises(WireError) as refusal:
        request(host=host)
    assert refusal.value.status == 400


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET / HTTP/2.0", 505),
        ("PRI * HTTP/2.0", 505),
        ("GET / HTTP/1.2", 505),
        ("GET / HTTP/0.9", 505),
        ("GET / HTTP/3", 505),
        ("GET /", 400),
        ("GET", 400),
        ("", 400),
        ("GET  / HTTP/1.1", 400),
        ("GET /  HTTP/1.1", 400),
        ("GET\t/ HTTP/1.1", 400),
        (" GET / HTTP/1.1", 400),
        (" GET / HTTP/2.0", 400),
        ("GET / HTTP/1.1 ", 400),
        ("GET / http/1.1", 400),
        ("GET / HTTP/1.10", 400),
        ("GET / HTTP/11", 400),
        ("GET /a b HTTP/1.1", 400),
        ("GET /#x HTTP/1.1", 400),
        ("GET /\xe9 HTTP/1.1", 400),
        ("GET /\x00 HTTP/1.1", 400),
        ("G@T / HTTP/1.1", 400),
        (f"{'M' * 33} / HTTP/1.1", 400),
        (f"GET /{'a' * 16384} HTTP/1.1", 414),
        ("CONNECT / HTTP/1.1", 400),
    ],
)
def test_refuses_a_request_line(line: str, status: int) -> None:
    with pytest.raises(WireError) as refusal:
        request(first=line)
    assert refusal.value.status == status


def test_a_long_target_is_taken_up_to_the_limit() -> None:
    assert len(request(first=f"GET /{'a' * 16383} HTTP/1.1").target) == 16384


@pytest.mark.parametrize("line", ["Content-Length: 0", "Content-Length: 5", "Transfer-Encoding: chunked"])
def test_connect_has_no_body(line: str) -> None:
    assert request(first="CONNECT a.example:443 HTTP/1.1").form == "authority"
    with pytest.raises(WireError):
        request(line, first="CONNECT a.example:443 HTTP/1.1")


def test_a_plain_response() -> None:
    head = response("Content-Length: 5", "Set-Cookie: a", "Set-Cookie: b")
    headers = (("content-length", "5"), ("set-cookie", "a"), ("set-cookie", "b"))
    assert head == ResponseHead(200, "OK", headers, Framing.sized(5))


@pytest.mark.parametrize(
    ("line", "status", "reason"),
    [
        ("HTTP/1.1 200 ", 200, ""),
        ("HTTP/1.1 200", 200, ""),
        ("HTTP/1.1 200 X\t", 200, "X"),
        ("HTTP/1.1 404 Not  Found\tx", 404, "Not  Found\tx"),
        ("HTTP/1.1 599 \xe9t\xe9", 599, "\xe9t\xe9"),
        ("HTTP/1.0 302 Found ", 302, "Found"),
    ],
)
def test_reads_a_status_line(line: str, status: int, reason: str) -> None:
    head = final(first=line)
    assert (head.status, head.reason) == (status, reason)


@pytest.mark.parametrize(
    "line",
    [
        "HTTP/1.1 99 x",
        "HTTP/1.1 099 x",
        "HTTP/1.1 600 x",
        "HTTP/1.1 2000 x",
        "HTTP/1.1 20x x",
        "HTTP/1.1  200 x",
        "HTTP/1.1 +20 x",
        "HTTP/1.1 200\tOK",
        "HTTP/1.1 200OK",
        "HTTP/2 200",
        "HTTP/1.1",
        "ICY 200 OK",
        "http/1.1 200 OK",
        "",
        "HTTP/1.1 200 a\x1bb",
        "HTTP/1.1 200 a\rb",
    ],
)
def test_refuses_a_status_line(line: str) -> None:
    with pytest.raises(WireError):
        response(first=line)


def test_a_response_of_http_1_0_ends_the_connection() -> None:
    head = final("Connection: keep-alive", first="HTTP/1.0 200 OK")
    assert (head.version, head.keep_alive, head.framing) == ("1.0", False, UNTIL_CLOSE)


def test_close_ends_the_connection() -> None:
    assert not final("Connection: Close").keep_alive
    assert final("Connection: Keep-Alive, Upgrade").keep_alive


@pytest.mark.parametrize("status", [100, 102, 103, 199])
def test_interim_responses_are_a_kind_of_their_own(status: int) -> None:
    head = response("Link: </a>", first=f"HTTP/1.1 {status} Wait")
    assert head == Informational(status, "Wait", (("link", "</a>"),))


@pytest.mark.parametrize("status", [103, 199, 204])
def test_an_empty_length_is_forgiven_where_no_body_can_be(status: int) -> None:
    head = response("Content-Length: 0", "A: b", first=f"HTTP/1.1 {status} x")
    assert head.headers == (("a", "b"),)


def test_a_switch_that_was_asked_for() -> None:
    head = final(
        "Connection: Upgrade", "Upgrade: WebSocket", first="HTTP/1.1 101 x", asked=("h2c", "websocket")
    )
    assert (head.status, head.framing, head.upgrade) == (101, NO_BODY, ("websocket",))


@pytest.mark.parametrize(
    ("lines", "asked"),
    [
        (["Connection: upgrade", "Upgrade: websocket"], ()),
        (["Connection: upgrade", "Upgrade: h2c"], ("websocket",)),
        (["Connection: upgrade", "Upgrade: websocket, h2c"], ("websocket", "h2c")),
        (["Upgrade: websocket"], ("websocket",)),
        (["Connection: upgrade"], ("websocket",)),
        ([], ("websocket",)),
    ],
)
def test_refuses_a_switch_that_was_not_asked_for(lines: list[str], asked: tuple[str, ...]) -> None:
    with pytest.raises(WireError):
        response(*lines, first="HTTP/1.1 101 x", asked=asked)


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: 5", "Content-Length: 5"],
        ["Content-Length: 5", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: gzip, chunked"],
        ["A : b"],
        [" A: b"],
        ["A: b"] * 129,
    ],
)
def test_refuses_a_response_with(lines: list[str]) -> None:
    with pytest.raises(WireError):
        response(*lines)


def test_an_offer_to_upgrade_on_an_ordinary_response_is_harmless() -> None:
    head = final("Connection: Upgrade, Keep-Alive", "Upgrade: h2,h2c", "Content-Length: 0")
    assert (head.upgrade, head.keep_alive) == (("h2", "h2c"), True)


def test_a_response_of_http_1_0_offers_no_upgrade() -> None:
    assert final("Connection: upgrade", "Upgrade: h2c", first="HTTP/1.0 200 OK").upgrade == ()
    assert final("Connection: upgrade", "Upgrade: h2c", first="HTTP/1.1 200 OK").upgrade == ("h2c",)


def test_a_head_with_the_fields_of_the_one_before_means_what_it_would_mean_alone() -> None:
    """Only what the fields say is taken over; method, target and version are read anew."""
    fields = "Host: a.example\r\nConnection: close,upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\n"
    lines = ("POST /a HTTP/1.1", "GET /b?c HTTP/1.1", "PUT /d HTTP/1.0", "GET http://b.example/e HTTP/1.1")
    for first in lines:
        before = parse_request_head(f"{first}\r\n{fields}".encode(), MessageLimits())
        for line in lines:
            block = f"{line}\r\n{fields}".encode()
            assert parse_request_head(block, MessageLimits(), before) == parse_request_head(
                block, MessageLimits()
            )


def test_a_connect_takes_nothing_over_from_the_head_before() -> None:
    fields = "Host: a.example\r\nContent-Length: 3\r\n\r\n"
    before = parse_request_head(f"POST / HTTP/1.1\r\n{fields}".encode(), MessageLimits())
    with pytest.raises(WireError, match="CONNECT"):
        parse_request_head(f"CONNECT a.example:443 HTTP/1.1\r\n{fields}".encode(), MessageLimits(), before)


@pytest.mark.parametrize("asked", ["GET", "HEAD"])
def test_a_response_head_with_the_fields_of_the_one_before_is_framed_anew(asked: str) -> None:
    fields = "Content-Length: 0\r\nConnection: close\r\n\r\n"
    lines = ("HTTP/1.1 200 OK", "HTTP/1.1 204 Gone", "HTTP/1.0 304 Same")
    for first in lines:
        before = parse_response_head(f"{first}\r\n{fields}".encode(), MessageLimits(), "GET", ())
        assert isinstance(before, ResponseHead)
        for line in lines:
            block = f"{line}\r\n{fields}".encode()
            again = parse_response_head(block, MessageLimits(), asked, (), before)
            assert again == parse_response_head(block, MessageLimits(), asked, ())
