"""Fields of HTTP/2 messages: one fault each, beside good heads. `tests/property` asks the library too."""

from __future__ import annotations

import pytest
from h2.exceptions import ProtocolError

from egress.relay.http2_fields import MessagePart, check_fields
from egress.types import Headers

REQUEST = ((":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a.example"))
RESPONSE = ((":status", "200"),)


def without(name: str) -> Headers:
    return tuple(field for field in REQUEST if field[0] != name)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        (REQUEST, "request"),
        ((*REQUEST, ("host", "a.example"), ("te", "Trailers"), ("x-a", "")), "request"),
        ((*without(":authority"), ("host", "a.example")), "request"),
        (((":method", "CONNECT"), *REQUEST[1:], (":protocol", "websocket")), "request"),
        ((*RESPONSE, ("x-a", "a\tb c")), "response"),
        ((("x-a", "b"),), "trailers"),
        ((), "trailers"),
    ],
)
def test_good_fields_pass(fields: Headers, part: MessagePart) -> None:
    check_fields(fields, part)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        *[(without(name), "request") for name in (":method", ":scheme", ":path", ":authority")],
        ((*REQUEST, (":method", "GET")), "request"),
        ((*REQUEST, (":status", "200")), "request"),
        ((*REQUEST, (":protocol", "websocket")), "request"),
        ((*REQUEST, ("x", "y"), (":x", "y")), "request"),
        ((("x", "y"), *REQUEST), "request"),
        ((*without(":path"), (":path", "")), "request"),
        ((*REQUEST, ("host", "b.example")), "request"),
        ((*without(":authority"), ("host", "a.example"), ("host", "b.example")), "request"),
        ((), "response"),
        ((*RESPONSE, *RESPONSE), "response"),
        ((*RESPONSE, (":path", "/")), "response"),
        (RESPONSE, "trailers"),
    ],
)
def test_pseudo_fields_that_are_missing_repeated_or_out_of_place(fields: Headers, part: MessagePart) -> None:
    with pytest.raises(ProtocolError):
        check_fields(fields, part)


@pytest.mark.parametrize(
    "field",
    [
        ("X-A", "b"),
        ("", "b"),
        ("a b", "c"),
        ("a:b", "c"),
        ("a\n", "b"),
        ("\xe9", "b"),
        ("x-a", "b\0"),
        ("x-a", "b\r"),
        ("x-a", "b\nc"),
        ("x-a", " b"),
        ("x-a", "b\t"),
        ("te", "gzip"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("keep-alive", ""),
        ("proxy-connection", "close"),
    ],
)
@pytest.mark.parametrize(("head", "part"), [(REQUEST, "request"), (RESPONSE, "response"), ((), "trailers")])
def test_a_field_that_may_not_be(field: tuple[str, str], head: Headers, part: MessagePart) -> None:
    check_fields((*head, ("x-a", "b")), part)
    with pytest.raises(ProtocolError):
        check_fields((*head, ("x-a", "b"), field, ("x-b", "c")), part)
