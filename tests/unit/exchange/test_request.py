"""A request head: whether it names the destination, and what of it may be decided on and sent."""

from __future__ import annotations

from ipaddress import IPv6Address

import pytest

from egress.exchange import DenyRequest, Destination, Request
from egress.exchange.request import decidable_head, names_destination
from egress.types import Head, Headers

API = Destination("https", "api.example.com", 443)
ODD = Destination("https", "api.example.com", 8443)
SIX = Destination("https", "2001:db8::1", 443)
FOUR = Destination("https", "127.0.0.1", 443)

EQUAL = [
    (API, "api.example.com"), (API, "API.Example.COM"), (API, "api.example.com."), (API,
    "api.example.com:443"),
    (API, "api.example.com.:443"), (API, "api.example.com:00443"), (ODD, "api.example.com:8443"),
    (ODD, "API.EXAMPLE.COM.:8443"), (SIX, "[2001:db8::1]"), (SIX, "[2001:DB8:0:0::1]:443"),
    (SIX, "[2001:0db8::0001]"), (FOUR, "127.0.0.1"), (FOUR, "127.0.0.1:443"),
    (Destination("https", str(IPv6Address("::ffff:7f00:1")), 443), "[::ffff:127.0.0.1]"),
]  # fmt: skip
DIFFERENT = [
    (API, "evil.example"), (API, ""), (API, "api.example.com@evil.example"), (API, "evil@api.example.com"),
    (API, "@api.example.com"), (API, "user:pass@api.example.com"), (API, "api.example.com:80"),
    (API, "api.example.com:"), (API, "api.example.com:443:443"), (API, "api.example.com:+443"),
    (API, "api.example.com:0x1bb"), (API, "api.example.com:443 "), (API, " api.example.com"),
    (API, "api.example.com:65979"), (API, "api.example.com:4 43"), (API,
    "api.example.com:\u0664\u0664\u0663"),
    (API, "[api.example.com]"), (API, "[[api.example.com]]"), (API, "api.example.com]"), (API,
    "[api.example.com"),
    (API, "api.example.com\x00"), (API, "api.example.com\x00.evil.example"), (API, "api.example.com%00"),
    (API, "api.example.com.."), (API, ".api.example.com"), (API, "api..example.com"), (API,
    "api%2eexample.com"),
    (API, "api\u3002example\u3002com"), (API, "\uff41pi.example.com"), (API, "ap\u0131.example.com"),
    (API, "api.example.\u212aom"), (API, "api.example.com/"), (API, "api.example.com/@evil.example"),
    (API, "evil.example/api.example.com"), (API, "api.example.com?x"), (API, "api.example.com#x"),
    (API, "api.example.com\\evil.example"), (API, "api.example.com,evil.example"), (API,
    "api.example.com evil"),
    (API, "api.example.com\r\nx: y"), (API, "api.example.com\tevil"), (API, "https://api.example.com"),
    (API, "api.example.com.evil.example"), (API, "evil-api.example.com"), (API, "example.com"),
    (API, "*.example.com"), (API, "xn--api.example.com"), (API, "a" * 300 + ".example.com"),
    (ODD, "api.example.com"), (ODD, "api.example.com:443"),
    (SIX, "2001:db8::1"), (SIX, "[2001:db8::2]"), (SIX, "[2001:db8::1%eth0]"), (SIX, "[2001:db8::1]:80"),
    (SIX, "[2001:db8::1]x"), (SIX, "[2001:db8::1"), (SIX, "[]"), (SIX, "[::]"), (SIX, "[:]"),
    (FOUR, "127.1"), (FOUR, "2130706433"), (FOUR, "0177.0.0.1"), (FOUR, "0x7f.0.0.1"), (FOUR, "0x7f000001"),
    (FOUR, "127.0.0.01"), (FOUR, "127.0.0.1."), (FOUR, "[127.0.0.1]"), (FOUR, "[::ffff:127.0.0.1]"),
    (FOUR, "[::1]"), (FOUR, "localhost"), (FOUR, "\uff11\uff12\uff17.0.0.1"), (FOUR, "127.0.0.1.nip.example"),
]  # fmt: skip


@pytest.mark.parametrize(("destination", "authority"), EQUAL)
def test_a_spelling_of_the_destination_names_it(destination: Destination, authority: str) -> None:
    assert names_destination(destination, authority)


@pytest.mark.parametrize(("destination", "authority"), DIFFERENT)
def test_anything_else_does_not(destination: Destination, authority: str) -> None:
    assert not names_destination(destination, authority)


def test_clear_text_has_its_own_port() -> None:
    plain = Destination("http", "api.example.com", 80)
    assert names_destination(plain, "api.example.com")
    assert names_destination(plain, "api.example.com:80")
    assert not names_destination(plain, "api.example.com:443")


def outcome(
    *headers: tuple[str, str],
    authority: str = "",
    upgrade: tuple[str, ...] = (),
    scheme: str = "",
    method: str = "GET",
) -> Head | str:
    read = decidable_head(Request(method, "/p?q", headers, authority, upgrade, scheme), API)
    return read.code if isinstance(read, DenyRequest) else read[0]


HOST = ("host", "api.example.com")


def kept(*headers: tuple[str, str], host: Headers = (HOST,)) -> Headers:
    head = outcome(*host, *headers)
    assert isinstance(head, Head), head
    return head.headers


@pytest.mark.parametrize(("destination", "authority"), EQUAL)
def test_host_goes_on_in_its_one_spelling_and_first(destination: Destination, authority: str) -> None:
    read = decidable_head(Request("GET", "/", (("accept", "*/*"), ("host", authority))), destination)
    assert not isinstance(read, DenyRequest)
    assert read[0].headers == (("host", destination.authority), ("accept", "*/*"))
    assert (read[0].host, read[0].port, read[0].scheme) == (destination.host, destination.port, "https")


@pytest.mark.parametrize(("destination", "authority"), DIFFERENT)
def test_host_and_authority_must_name_the_destination(destination: Destination, authority: str) -> None:
    """Alone, and beside the right one: neither can stand in for the other."""
    right = destination.authority
    for headers, other in [
        ((("host", authority),), ""),
        ((("host", authority),), right),
        ((("host", right),), authority),
        ((), authority),
    ]:
        read = decidable_head(Request("GET", "/", headers, other), destination)
        if headers == (("host", right),) and not authority:
            continue  # no authority at all: the Host stands alone, and is right
        assert isinstance(read, DenyRequest), (headers, other)
        assert read.code in ("request.mismatch", "request.malformed")


def test_the_authority_of_the_request_may_stand_alone_or_beside_host() -> None:
    assert isinstance(outcome(authority="API.example.com"), Head)
    assert isinstance(outcome(HOST, authority="api.example.com:443"), Head)


@pytest.mark.parametrize("second", ["api.example.com", "evil.example", ""])
def test_refuses_a_second_host_even_the_same(second: str) -> None:
    assert outcome(HOST, ("host", second)) == "request.malformed"


def test_refuses_a_request_that_names_nothing() -> None:
    assert outcome() == "request.malformed"
    assert outcome(("accept", "*/*")) == "request.malformed"


def test_the_scheme_that_a_request_names_is_that_of_the_connection() -> None:
    assert isinstance(outcome(HOST, scheme="https"), Head)
    assert isinstance(outcome(HOST, scheme="HTTPS"), Head)
    assert outcome(HOST, scheme="http") == "request.mismatch"
    assert outcome(HOST, scheme="ftp") == "request.mismatch"


@pytest.mark.parametrize(
    "field", [("Host", "evil.example"), ("x-a", "1\r\nhost: evil"), (":authority", "evil")]
)
def test_refuses_fields_that_no_codec_of_ours_would_give(field: tuple[str, str]) -> None:
    assert outcome(HOST, field) == "request.malformed"


# Fields of the connection ---------------------------------------------------------------------


def test_nominated_fields_are_those_of_the_sandbox() -> None:
    """`Connection: close, authorization` is about what the sandbox itself sent."""
    assert kept(
        ("connection", "close, Authorization, x-a"), ("authorization", "own"), ("x-a", "1"), ("x-b", "2")
    ) == (
        HOST,
        ("x-b", "2"),
    )


@pytest.mark.parametrize("value", ["host", "close, Host", "content-length", "a b", "\xe9", "close, host,"])
def test_host_and_length_cannot_be_nominated(value: str) -> None:
    assert outcome(HOST, ("connection", value)) == "request.malformed"


@pytest.mark.parametrize(
    "name",
    ["connection", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-anything", "te", "upgrade",
     "transfer-encoding", "http2-settings", "expect"],
)  # fmt: skip
def test_fields_of_the_connection_stay_behind(name: str) -> None:
    assert kept((name, "x"), ("accept", "*/*")) == (HOST, ("accept", "*/*"))


# Upgrades -------------------------------------------------------------------------------------


def test_a_websocket_is_marked() -> None:
    head = outcome(HOST, ("sec-websocket-key", "x"), upgrade=("websocket",))
    assert isinstance(head, Head)
    assert head.websocket
    assert ("sec-websocket-key", "x") in head.headers


@pytest.mark.parametrize(
    "upgrade",
    [("h2c",), ("websocket", "h2c"), ("h2c", "websocket"), ("tls/1.0",), ("foo",), ("WebSocket",), ("",)],
)
def test_refuses_every_other_upgrade(upgrade: tuple[str, ...]) -> None:
    assert outcome(HOST, upgrade=upgrade) == "request.upgrade"


@pytest.mark.parametrize("field", [("content-length", "5"), ("transfer-encoding", "chunked")])
def test_refuses_a_websocket_with_a_body(field: tuple[str, str]) -> None:
    """Behind the switch nobody can tell a body from frames."""
    assert outcome(HOST, field, upgrade=("websocket",)) == "request.malformed"


def test_a_websocket_may_say_that_it_has_none() -> None:
    assert isinstance(outcome(HOST, ("content-length", "0"), upgrade=("websocket",)), Head)


@pytest.mark.parametrize("method", ["POST", "CONNECT", "get", ""])
def test_refuses_a_websocket_by_another_method(method: str) -> None:
    assert outcome(HOST, upgrade=("websocket",), method=method) == "request.malformed"


# Lengths --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "+1", "1,1", "\xb2", "9" * 5000])
def test_refuses_a_length_that_is_no_number(text: str) -> None:
    assert outcome(HOST, ("content-length", text)) == "request.malformed"


def test_gives_the_stated_length() -> None:
    read = decidable_head(Request("POST", "/", (HOST, ("content-length", "7"))), API)
    assert not isinstance(read, DenyRequest)
    assert read[1] == 7
    assert ("content-length", "7") in read[0].headers
    bare = decidable_head(Request("POST", "/", (HOST,)), API)
    assert not isinstance(bare, DenyRequest)
    assert bare[1] == 0
