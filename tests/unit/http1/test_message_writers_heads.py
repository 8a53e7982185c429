"""Heads as bytes: one spelling, and nothing that was not checked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from egress.errors import WireError
from egress.http1 import (
    CHUNKED,
    NO_BODY,
    UNTIL_CLOSE,
    Body,
    Framing,
    encode_informational,
    encode_request_head,
    encode_response_head,
)
from egress.http1.message_writers import encode_trailers
from egress.types import Headers

HOST: Headers = (("host", "a.example"),)
BAD_FIELDS: list[tuple[str, str]] = [
    ("x", "a\r\nb: c"),
    ("x", "a\rb"),
    ("x", "a\nb"),
    ("x", "a\x00b"),
    ("x", "a\x7f"),
    ("x", "a\u0100"),
    ("x", "\u560a"),
    ("x", " a"),
    ("x", "a\t"),
    ("x", " "),
    ("X", "a"),
    ("", "a"),
    ("x y", "a"),
    ("x:", "a"),
    ("x\r\ny", "a"),
    ("x: a\r\ny", "a"),
    ("x\xe9", "a"),
    ("content_length", "5"),
    ("connection", "close"),
    ("keep-alive", "timeout=5"),
    ("proxy-connection", "close"),
    ("te", "trailers"),
    ("transfer-encoding", "chunked"),
    ("upgrade", "websocket"),
    ("expect", "100-continue"),
]


def refused(error: pytest.ExceptionInfo[WireError]) -> bool:
    return error.value.status == 500


def test_a_request_head() -> None:
    wire = encode_request_head("GET", "/x?y", (*HOST, ("accept", "*/*"), ("x", "")))
    assert wire == b"GET /x?y HTTP/1.1\r\nhost: a.example\r\naccept: */*\r\nx: \r\n\r\n"


def test_a_request_head_with_everything() -> None:
    wire = encode_request_head(
        "POST", "/", HOST, Framing.sized(5), close=True, upgrade=("websocket", "h2c"), expect_continue=True
    )
    assert wire == (
        b"POST / HTTP/1.1\r\nhost: a.example\r\ncontent-length: 5\r\nconnection: close, upgrade\r\n"
        b"upgrade: websocket, h2c\r\nexpect: 100-continue\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("framing", "field"),
    [
        (NO_BODY, b""),
        (Framing(Body.NONE), b""),
        (Framing.sized(0), b"content-length: 0\r\n"),
        (Framing.sized(10**18 - 1), b"content-length: 999999999999999999\r\n"),
        (CHUNKED, b"transfer-encoding: chunked\r\n"),
    ],
)
def test_the_framing_is_spelt_by_us(framing: Framing, field: bytes) -> None:
    assert (
        encode_request_head("POST", "/", HOST, framing)
        == b"POST / HTTP/1.1\r\nhost: a.example\r\n" + field + b"\r\n"
    )


def test_a_length_that_agrees_stays_where_it_is() -> None:
    wire = encode_request_head("POST", "/", (("content-length", "5"), *HOST), Framing.sized(5))
    assert wire == b"POST / HTTP/1.1\r\ncontent-length: 5\r\nhost: a.example\r\n\r\n"


@pytest.mark.parametrize(
    ("framing", "length"),
    [(Framing.sized(5), "6"), (Framing.sized(5), "05"), (CHUNKED, "5"), (NO_BODY, "5"), (NO_BODY, "0")],
)
def test_a_length_that_does_not_agree_is_refused(framing: Framing, length: str) -> None:
    with pytest.raises(WireError) as error:
        encode_request_head("POST", "/", (*HOST, ("content-length", length)), framing)
    assert refused(error)


@pytest.mark.parametrize("framing", [UNTIL_CLOSE, Framing.sized(-1), Framing.sized(10**18)])
def test_a_request_cannot_be_framed_by(framing: Framing) -> None:
    with pytest.raises(WireError) as error:
        encode_request_head("POST", "/", HOST, framing)
    assert refused(error)


def test_a_connect_request_has_no_body() -> None:
    assert encode_request_head("CONNECT", "a:443", HOST).startswith(b"CONNECT a:443 HTTP/1.1\r\n")
    with pytest.raises(WireError):
        encode_request_head("CONNECT", "a:443", HOST, Framing.sized(0))


@pytest.mark.parametrize("field", BAD_FIELDS, ids=repr)
def test_a_field_that_must_not_be_sent_is_refused_everywhere(field: tuple[str, str]) -> None:
    headers = (*HOST, field, ("z", "z"))
    attempts: list[Callable[[], bytes]] = [
        lambda: encode_request_head("GET", "/", headers),
        lambda: encode_response_head(200, "OK", headers, CHUNKED, method="GET"),
        lambda: encode_informational(103, "", headers),
        lambda: encode_trailers((("z", "z"), field)),
    ]
    for attempt in attempts:
        with pytest.raises(WireError) as error:
            attempt()
        assert refused(error)


@pytest.mark.parametrize(
    "headers", [(), (*HOST, *HOST), (("host", ""),), (("host", "a@b"),), (("host", "a,b"),)]
)
def test_a_request_has_exactly_one_proper_host(headers: Headers) -> None:
    with pytest.raises(WireError) as error:
        encode_request_head("GET", "/", headers)
    assert refused(error)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET ", "/"),
        ("", "/"),
        ("G\r\nT", "/"),
        ("G" * 33, "/"),
        ("GET", ""),
        ("GET", "/ HTTP/1.1\r\nx: y\r\n\r\nGET /"),
        ("GET", "/a b"),
        ("GET", "/\xe9"),
        ("GET", "/\u0100"),
        ("GET", "/#x"),
        ("GET", "x"),
        ("GET", "*"),
        ("CONNECT", "/"),
    ],
)
def test_a_request_line_that_must_not_be_sent_is_refused(method: str, target: str) -> None:
    with pytest.raises(WireError) as error:
        encode_request_head(method, target, HOST)
    assert refused(error)


@pytest.mark.parametrize("protocol", ["a b", "a,b", "", "A", "a/", "a\r\nb", "websocket "])
def test_a_protocol_that_is_no_token_is_refused(protocol: str) -> None:
    with pytest.raises(WireError) as error:
        encode_request_head("GET", "/", HOST, upgrade=(protocol,))
    assert refused(error)


def test_a_response_head() -> None:
    wire = encode_response_head(
        200, "OK", (("set-cookie", "a"), ("set-cookie", "b")), Framing.sized(2), method="GET"
    )
    assert wire == b"HTTP/1.1 200 OK\r\nset-cookie: a\r\nset-cookie: b\r\ncontent-length: 2\r\n\r\n"


def test_a_length_of_a_response_that_agrees_stays_where_it_is() -> None:
    headers: Headers = (("set-cookie", "a"), ("content-length", "2"), ("set-cookie", "b"))
    wire = encode_response_head(200, "X", headers, Framing.sized(2), method="GET")
    assert wire == b"HTTP/1.1 200 X\r\nset-cookie: a\r\ncontent-length: 2\r\nset-cookie: b\r\n\r\n"


def test_a_length_is_stated_once() -> None:
    twice: Headers = (("content-length", "5"), ("content-length", "5"))
    with pytest.raises(WireError) as error:
        encode_request_head("POST", "/", (*HOST, *twice), Framing.sized(5))
    assert refused(error)
    with pytest.raises(WireError):
        encode_response_head(200, "OK", twice, Framing.sized(5), method="GET")


def test_an_open_ended_response_says_that_it_closes() -> None:
    wire = encode_response_head(200, "", (), UNTIL_CLOSE, method="GET")
    assert wire == b"HTTP/1.1 200 \r\nconnection: close\r\n\r\n"


def test_a_switch() -> None:
    wire = encode_response_head(101, "x", (), NO_BODY, method="GET", upgrade=("websocket",))
    assert wire == b"HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 304)])
def test_a_response_may_tell_the_length_it_would_have_had(method: str, status: int) -> None:
    wire = encode_response_head(status, "", (("content-length", "5"),), NO_BODY, method=method)
    assert wire == f"HTTP/1.1 {status} \r\ncontent-length: 5\r\n\r\n".encode()
    with pytest.raises(WireError):
        encode_response_head(status, "", (("content-length", "+5"),), NO_BODY, method=method)


@pytest.mark.parametrize(
    ("method", "status", "framing"),
    [
        ("GET", 200, NO_BODY),
        ("GET", 205, NO_BODY),
        ("HEAD", 200, Framing.sized(5)),
        ("HEAD", 200, CHUNKED),
        ("GET", 204, Framing.sized(0)),
        ("GET", 304, CHUNKED),
        ("CONNECT", 200, UNTIL_CLOSE),
        ("GET", 100, NO_BODY),
        ("GET", 103, NO_BODY),
        ("GET", 199, NO_BODY),
        ("GET", 101, NO_BODY),
    ],
)
def test_a_response_is_framed_as_its_client_will_read_it(method: str, status: int, framing: Framing) -> None:
    with pytest.raises(WireError) as error:
        encode_response_head(status, "", (), framing, method=method)
    assert refused(error)


@pytest.mark.parametrize(("method", "status"), [("GET", 204), ("HEAD", 204), ("CONNECT", 200)])
def test_a_response_that_can_have_no_body_states_none(method: str, status: int) -> None:
    assert encode_response_head(status, "", (), NO_BODY, method=method)
    with pytest.raises(WireError):
        encode_response_head(status, "", (("content-length", "0"),), NO_BODY, method=method)


def test_a_switch_states_no_length() -> None:
    for method in ("GET", "HEAD"):
        with pytest.raises(WireError):
            encode_response_head(
                101, "", (("content-length", "0"),), NO_BODY, method=method, upgrade=("websocket",)
            )


def test_only_a_switch_names_a_protocol() -> None:
    with pytest.raises(WireError):
        encode_response_head(200, "", (), CHUNKED, method="GET", upgrade=("websocket",))


@pytest.mark.parametrize("status", [0, 99, 600, 1000, -200])
def test_a_status_has_three_digits(status: int) -> None:
    with pytest.raises(WireError):
        encode_response_head(status, "", (), CHUNKED, method="GET")


@pytest.mark.parametrize("reason", ["a\r\nx: y", "a\nb", "a\x00", "a\u0100", " a", "a "])
def test_a_reason_that_must_not_be_sent_is_refused(reason: str) -> None:
    with pytest.raises(WireError):
        encode_response_head(200, reason, (), CHUNKED, method="GET")
    with pytest.raises(WireError):
        encode_informational(103, reason)


def test_an_interim_response() -> None:
    assert (
        encode_informational(103, "Early Hints", (("link", "</a>"),))
        == b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
    )
    assert encode_informational(100) == b"HTTP/1.1 100 \r\n\r\n"
    assert encode_informational(199) == b"HTTP/1.1 199 \r\n\r\n"


@pytest.mark.parametrize(
    ("status", "headers"), [(101, ()), (200, ()), (99, ()), (103, (("content-length", "0"),))]
)
def test_an_interim_response_is_refused_that_is_none(status: int, headers: Headers) -> None:
    with pytest.raises(WireError):
        encode_informational(status, "", headers)


def test_trailers() -> None:
    assert encode_trailers(()) == b"\r\n"
    assert encode_trailers((("x-sum", "1"),)) == b"x-sum: 1\r\n\r\n"
    for name in ("host", "content-length", "set-cookie", "proxy-authorization"):
        with pytest.raises(WireError):
            encode_trailers(((name, "x"),))


def test_a_refusal_never_quotes_what_it_refuses() -> None:
    with pytest.raises(WireError) as error:
        encode_request_head("GET", "/", (*HOST, ("authorization", "Bearer s3cret\n")))
    assert "s3cret" not in str(error.value) + error.value.hint
