"""Heads that name two destinations, hide a line, or take away what is injected.

S-24 (two Host fields), S-27 (origin form where a proxy expects a full URL), S-35 (line ends in a
secret), class 10 (Connection nominates a credential). Each has its good twin.
"""

from __future__ import annotations

import pytest

from egress.errors import WireError
from egress.http1 import (
    NO_BODY,
    Data,
    End,
    RequestHead,
    RequestReader,
    RequestWriter,
    ResponseReader,
    ResponseWriter,
    encode_request_head,
    strip_hop_by_hop,
)


def read(wire: str) -> RequestHead:
    head = RequestReader().feed(wire.encode("latin-1"))[0]
    assert isinstance(head, RequestHead)
    return head


def get(*lines: str, target: str = "/", method: str = "GET") -> RequestHead:
    return read("\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""]))


def test_control_one_host_passes() -> None:
    assert get("Host: api.example").host == "api.example"
    assert get("Host: api.example:8443").host == "api.example:8443"


@pytest.mark.parametrize(
    "lines",
    [
        ["Host: api.example", "Host: evil.example"],
        ["Host: api.example", "Host: api.example"],
        ["Host: api.example", "hOST: evil.example"],
        ["Host: api.example", " Host: evil.example"],
        ["Host: api.example", "Host : evil.example"],
        ["Host: api.example\nHost: evil.example"],
        ["Host: api.example\rHost: evil.example"],
        ["Host: api.example\x00.evil.example"],
        ["Host: api.example, evil.example"],
        ["Host: api.example evil.example"],
        ["Host: api.example@evil.example"],
        ["Host: api.example/evil.example"],
        ["Host: api.example#evil.example"],
        ["Host: api.example?evil.example"],
        ["Host: api.example\\evil.example"],
        ["Host: api%2eexample"],
        ["Host: http://api.example"],
        ["Host: [api.example]"],
        ["Host: [[::1]]"],
        ["Host: ap\xed.example"],
        ["Host: api.example:"],
        ["Host: api.example:443:80"],
        ["Host:"],
        [],
    ],
)
def test_a_request_names_one_host_or_is_refused(lines: list[str]) -> None:
    with pytest.raises(WireError) as refusal:
        get(*lines)
    assert refusal.value.status == 400


def test_control_the_form_of_the_target_is_told() -> None:
    """The door refuses what it does not serve; here it learns which form it has before it."""
    assert get("Host: a", target="http://a/x").form == "absolute"
    assert get("Host: a:1", target="a:1", method="CONNECT").form == "authority"
    assert get("Host: a").form == "origin"


@pytest.mark.parametrize(
    "target",
    [
        "http://api.example@evil.example/",
        "http://api.example:x@evil.example/",
        "http://api.example?@evil.example/",
        "http://api.example#@evil.example/",
        "http://api.example\\@evil.example/",
        "http:///evil.example",
        "http:/evil.example",
        "http:evil.example",
        "//",
        "evil.example",
        "file:///etc/passwd",
        "http://[::1",
        "http://ap%69.example/",
        "http://\u0251pi.example/",
    ],
)
def test_an_absolute_target_names_one_host_or_is_no_absolute_target(target: str) -> None:
    assert get("Host: a", target="http://api.example/x").authority == "api.example"
    try:
        head = read(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n") if target.isascii() else None
    except WireError:
        return
    assert head is None or (head.form, head.authority) == ("origin", "")


# Class 10 ---------------------------------------------------------------------------------------


def inject(head: RequestHead) -> bytes:
    """Strip, then inject, in the order a lane keeps."""
    kept = strip_hop_by_hop(head.headers)
    headers = (*(field for field in kept if field[0] != "authorization"), ("authorization", "Bearer real"))
    return encode_request_head(head.method, head.target, headers, head.framing)


@pytest.mark.parametrize(
    "connection",
    [
        ["keep-alive"],
        ["close, Authorization"],
        ["AUTHORIZATION"],
        ["close", "authorization"],
        ["x,authorization ,y"],
    ],
)
def test_a_nominated_credential_is_still_sent_and_only_ours(connection: list[str]) -> None:
    head = get("Host: a", "Authorization: Bearer mine", *(f"Connection: {value}" for value in connection))
    wire = inject(head)
    assert wire.count(b"authorization") == 1
    assert b"\r\nauthorization: Bearer real\r\n" in wire
    assert b"connection" not in wire


@pytest.mark.parametrize("name", ["Host", "Content-Length"])
def test_what_routes_and_frames_cannot_be_nominated_away(name: str) -> None:
    assert get("Host: a", "Connection: X-Mine", "X-Mine: 1")
    with pytest.raises(WireError):
        get("Host: a", f"Connection: close, {name}")


def test_a_head_that_was_not_stripped_cannot_be_written() -> None:
    head = get("Host: a", "Connection: keep-alive")
    assert RequestWriter().head(head.method, head.target, strip_hop_by_hop(head.headers))
    with pytest.raises(WireError):
        RequestWriter().head(head.method, head.target, head.headers)


def test_proxy_credentials_stay_here() -> None:
    head = get("Host: a", "Proxy-Authorization: Basic eDp5", "Proxy-Connection: keep-alive", "X: y")
    assert strip_hop_by_hop(head.headers) == (("host", "a"), ("x", "y"))


# What is written --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "secret", ["t0ken\n", "t0ken\r\n", "t0ken\r\nX: y", "\x00t0ken", "t0ken ", "t0\x7fken"]
)
def test_a_secret_with_a_line_end_never_reaches_the_wire(secret: str) -> None:
    """S-35, should it get as far as this: refused, and not quoted."""
    assert encode_request_head("GET", "/", (("host", "a"), ("authorization", "Bearer t0ken")))
    with pytest.raises(WireError) as refusal:
        encode_request_head("GET", "/", (("host", "a"), ("authorization", f"Bearer {secret}")))
    assert "t0" not in f"{refusal.value.message}{refusal.value.hint}{refusal.value.args}"


def test_a_method_from_http_2_cannot_become_a_request_line() -> None:
    """Class 9: `:method: "DELETE /x?a="` is one word to HTTP/2 and a request to HTTP/1."""
    for method, target in (("DELETE /x?a=", "/p"), ("GET", "/p HTTP/1.1\r\nX: y"), ("GET", "/p q")):
        with pytest.raises(WireError):
            encode_request_head(method, target, (("host", "a"),))


def test_no_refusal_quotes_the_peer() -> None:
    canary = "canary"
    for wire in (
        f"GET /{canary} HTTP/9.9\r\n\r\n",
        f"{canary}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: {canary} {canary}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: a\r\n{canary} : x\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: a\r\nExpect: {canary}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {canary}\r\n\r\n",
        f"GET {canary} HTTP/1.1\r\nHost: a\r\n\r\n",
    ):
        with pytest.raises(WireError) as refusal:
            read(wire)
        assert canary not in f"{refusal.value!r}{refusal.value.hint}"
        assert refusal.value.__cause__ is None


# Responses --------------------------------------------------------------------------------------


def test_bytes_sent_ahead_of_an_answer_to_an_upgrade_are_there_to_be_judged() -> None:
    """A payload behind an upgrade that is refused is the next request, not part of a tunnel."""
    reader = RequestReader()
    reader.feed(
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nGET /admin HTTP/1.1\r\n\r\n"
    )
    with pytest.raises(WireError, match="no Host"):
        reader.next_message()


def test_nobody_switches_protocols_unasked() -> None:
    switch = b"HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    asked, unasked = ResponseReader(), ResponseReader()
    asked.expect("GET", upgrade=("websocket",))
    assert asked.feed(switch)[1:] == [End()]
    unasked.expect("GET")
    with pytest.raises(WireError):
        unasked.feed(switch)
    writer = ResponseWriter()
    writer.answer(get("Host: a"))
    with pytest.raises(WireError):
        writer.head(101, "", (), NO_BODY, upgrade=("websocket",))


@pytest.mark.parametrize(
    "status_line", ["HTTP/1.1 200 OK\rSet-Cookie: x", "HTTP/1.1 200 \x1b[2J", "HTTP/1.1 200 a\x00"]
)
def test_a_reason_carries_no_control_bytes(status_line: str) -> None:
    control, reader = ResponseReader(), ResponseReader()
    control.expect("GET")
    assert control.feed(b"HTTP/1.1 200 Fine\r\nContent-Length: 1\r\n\r\nx")[1:] == [Data(b"x"), End()]
    reader.expect("GET")
    with pytest.raises(WireError):
        reader.feed(status_line.encode() + b"\r\nContent-Length: 0\r\n\r\n")
