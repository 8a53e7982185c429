"""Our check of HTTP/2 fields, beside the one of the library: it refuses all that the library refuses."""

from __future__ import annotations

import pytest
from h2.exceptions import ProtocolError
from h2.utilities import HeaderValidationFlags, validate_headers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from egress.relay.http2_fields import MessagePart, check_fields
from egress.types import Headers
from tests.tiers import examples

PARTS: tuple[MessagePart, ...] = ("request", "response", "trailers")
NAMES = (
    ":method",
    ":scheme",
    ":path",
    ":authority",
    ":status",
    ":protocol",
    ":",
    ":x",
    "host",
    "te",
    "connection",
    "upgrade",
    "keep-alive",
    "cookie",
    "x-a",
    "X-A",
    "a b",
    "",
    "a:b",
)
VALUES = ("", "GET", "CONNECT", "https", "/", "a.example", "b.example", "200", "trailers", "Trailers", " a")
characters = st.characters(max_codepoint=0xFF)
name = st.one_of(st.sampled_from(NAMES), st.text(characters, max_size=4))
value = st.one_of(st.sampled_from(VALUES), st.text(characters, max_size=4))
GOOD: dict[str, list[tuple[str, str]]] = {
    "request": [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a.example")],
    "response": [(":status", "200")],
    "trailers": [],
}


def library_refuses(fields: Headers, part: MessagePart) -> bool:
    flags = HeaderValidationFlags(
        is_client=part == "response",
        is_trailer=part == "trailers",
        is_response_header=part == "response",
        is_push_promise=False,
    )
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
    try:
        list(validate_headers(raw, flags))
    except (ProtocolError, IndexError):
        # The library looks at the first character of a name that may have none.
        return True
    return False


def we_refuse(fields: Headers, part: MessagePart) -> bool:
    try:
        check_fields(fields, part)
    except ProtocolError:
        return True
    return False


@pytest.mark.parametrize("part", PARTS)
@given(fields=st.lists(st.tuples(name, value), max_size=4), at=st.integers(0, 5), whole=st.booleans())
@example(fields=[("a", "b\x00")], at=5, whole=True)
@example(fields=[("a", "\nb"), ("b", "c")], at=5, whole=True)
@example(fields=[("host", "b.example")], at=5, whole=True)
@example(fields=[("host", "a.example")], at=5, whole=True)
@example(fields=[(":protocol", "websocket")], at=0, whole=True)
@settings(max_examples=examples(1500))
def test_we_refuse_what_the_library_refuses(
    part: MessagePart, fields: list[tuple[str, str]], at: int, whole: bool
) -> None:
    """`whole`: beside the fields of a good head, so that a single fault decides."""
    drawn = [*GOOD[part][:at], *fields, *GOOD[part][at:]] if whole else fields
    if library_refuses(tuple(drawn), part):
        assert we_refuse(tuple(drawn), part)
    elif len([field for field in drawn if field[0] == "host"]) < 2:
        # We are stricter in one thing: two fields Host must say the same.
        assert not we_refuse(tuple(drawn), part)


@pytest.mark.parametrize("part", PARTS)
def test_good_fields_pass(part: MessagePart) -> None:
    for fields in (
        [],
        [("x-a", "")],
        [("te", "TRAILERS"), ("x", "a b\x01\xff")],
        [("cookie", "a"), ("cookie", "b")],
    ):
        check_fields((*GOOD[part], *fields), part)
    if part == "request":
        check_fields((*GOOD["request"], ("host", "a.example")), part)
