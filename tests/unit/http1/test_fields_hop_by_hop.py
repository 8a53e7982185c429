"""What belongs to one connection stays on it."""

from __future__ import annotations

import pytest

from egress.errors import WireError
from egress.http1 import strip_hop_by_hop
from egress.http1.fields import connection_options, upgrade_protocols
from egress.types import Headers


def options(*values: str) -> tuple[str, ...]:
    headers: Headers = tuple(("connection", value) for value in values)
    return connection_options(headers, dict(headers))


def test_without_the_field_there_are_no_options() -> None:
    assert options() == ()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["close"], ("close",)),
        (["Keep-Alive"], ("keep-alive",)),
        (["close, X-A"], ("close", "x-a")),
        ([" ,close,\t,X-A , "], ("close", "x-a")),
        (["keep-alive", "close"], ("keep-alive", "close")),
        (["Transfer-Encoding"], ("transfer-encoding",)),
        ([""], ()),
    ],
)
def test_reads_the_options_of_every_field(values: list[str], expected: tuple[str, ...]) -> None:
    assert options(*values) == expected


@pytest.mark.parametrize(
    "value", ["a b", "close; x", '"close"', "close\x80", "host", "X-A, Content-Length", "HOST"]
)
def test_refuses_what_is_no_option(value: str) -> None:
    with pytest.raises(WireError):
        options(value)


def test_the_last_of_two_fields_does_not_hide_the_first() -> None:
    with pytest.raises(WireError):
        options("host", "close")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("WebSocket", ("websocket",)),
        ("h2c, websocket", ("h2c", "websocket")),
        ("TLS/1.0", ("tls/1.0",)),
        ("", ()),
    ],
)
def test_reads_the_protocols_an_upgrade_names(value: str, expected: tuple[str, ...]) -> None:
    assert upgrade_protocols((("upgrade", value),), ("upgrade",)) == expected


def test_an_upgrade_nobody_nominated_is_none() -> None:
    assert upgrade_protocols((("upgrade", "websocket"),), ("close",)) == ()


@pytest.mark.parametrize("value", ["a b", "a/", "a/b/c", "/a", "websocket;x"])
def test_refuses_a_malformed_upgrade(value: str) -> None:
    with pytest.raises(WireError):
        upgrade_protocols((("upgrade", value),), ("upgrade",))


HOP_BY_HOP = [
    ("connection", "keep-alive"),
    ("keep-alive", "timeout=5"),
    ("proxy-connection", "keep-alive"),
    ("proxy-authorization", "Basic eDp5"),
    ("proxy-authenticate", "Basic"),
    ("te", "trailers"),
    ("transfer-encoding", "chunked"),
    ("upgrade", "websocket"),
    ("http2-settings", "AAMAAABk"),
    ("expect", "100-continue"),
]


@pytest.mark.parametrize("field", HOP_BY_HOP, ids=lambda field: field[0])
def test_strips_each_hop_by_hop_field(field: tuple[str, str]) -> None:
    assert strip_hop_by_hop((("host", "a"), field, ("x", "y"))) == (("host", "a"), ("x", "y"))


def test_strips_what_connection_nominates_every_time_it_occurs() -> None:
    headers = (
        ("x-a", "1"),
        ("connection", "close, X-A"),
        ("authorization", "b"),
        ("x-a", "2"),
        ("x-ab", "3"),
    )
    assert strip_hop_by_hop(headers) == (("authorization", "b"), ("x-ab", "3"))


def test_keeps_what_frames_and_describes_the_message() -> None:
    headers = (("host", "a"), ("content-length", "5"), ("trailer", "x-t"), ("date", "x"), ("proxy", "y"))
    assert strip_hop_by_hop(headers) == headers


def test_will_not_strip_a_head_whose_connection_it_cannot_read() -> None:
    with pytest.raises(WireError):
        strip_hop_by_hop((("connection", "a b"), ("x", "y")))
