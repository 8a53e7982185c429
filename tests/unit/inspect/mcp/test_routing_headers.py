"""Headers of MCP: once each, and in agreement with the body."""

from __future__ import annotations

import base64

import pytest

from egress.inspect.mcp.message import ClientMessage, MessageError
from egress.inspect.mcp.routing_headers import (
    MAX_SESSION_CHARS,
    VERSION_META,
    RoutingError,
    RoutingHeaders,
    is_session_id,
    read_routing_headers,
    stated_revision,
)
from egress.inspect.strict_json import JsonFloat, JsonValue
from egress.types import Head

NEWEST = "2026-07-28"


def head(*headers: tuple[str, str]) -> Head:
    return Head("POST", "https", "mcp.example.test", 443, "/mcp", headers)


def call(**params: JsonValue) -> ClientMessage:
    return ClientMessage("tools/call", 1, {"name": "größe", **params})


def fits(headers: RoutingHeaders, message: ClientMessage) -> str:
    try:
        headers.check_body(message)
    except MessageError as error:
        return error.code if error.message_id == message.message_id else "another id"
    return ""


def encoded(data: bytes) -> str:
    return f"=?base64?{base64.b64encode(data).decode()}?="


def test_headers_are_read_by_name() -> None:
    found = read_routing_headers(
        head(
            ("mcp-method", "tools/call"),
            ("mcp-name", " a "),
            ("mcp-protocol-version", NEWEST),
            ("mcp-session-id", "s"),
            ("last-event-id", "1"),
            ("mcp-param-repo", "r"),
            ("x-other", "1"),
        )
    )
    assert found == RoutingHeaders("tools/call", "a", NEWEST, "s", "1", ("r",))
    assert read_routing_headers(head()) == RoutingHeaders()


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ((("mcp-name", "a"), ("mcp-name", "a")), "mcp.header_mismatch"),
        ((("mcp-method", "a"), ("mcp_method", "b")), "mcp.header_mismatch"),
        ((("mcp-param-a", "1"), ("mcp-param_a", "1")), "mcp.header_mismatch"),
        ((("mcp-session-id", "s"), ("mcp.session.id", "t")), "mcp.header_mismatch"),
        ((("mcp-protocol-version", "2027-01-01"),), "mcp.version"),
        ((("mcp-session-id", ""),), "mcp.session"),
        ((("mcp-session-id", "a b"),), "mcp.session"),
        ((("mcp-session-id", "x" * (MAX_SESSION_CHARS + 1)),), "mcp.session"),
    ],
)
def test_a_head_that_can_be_read_in_two_ways_is_refused(
    headers: tuple[tuple[str, str], ...], code: str
) -> None:
    with pytest.raises(RoutingError) as caught:
        read_routing_headers(head(*headers))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (RoutingHeaders(), ""),
        (RoutingHeaders(method="tools/call"), ""),
        (RoutingHeaders(method="tools/list"), "mcp.header_mismatch"),
        (RoutingHeaders(name=encoded("größe".encode())), ""),
        (RoutingHeaders(name="größe"), "mcp.header_mismatch"),
        (RoutingHeaders(name=encoded(b"other")), "mcp.header_mismatch"),
        (RoutingHeaders(name=encoded(b"\xff")), "mcp.header_mismatch"),
        (RoutingHeaders(name="=?base64?***?="), "mcp.header_mismatch"),
        # The same bytes in a spelling that not every decoder takes.
        (RoutingHeaders(name=encoded("größe".encode()).replace("?=", "=?=")), "mcp.header_mismatch"),
    ],
)
def test_a_header_says_what_the_body_says(headers: RoutingHeaders, code: str) -> None:
    assert fits(headers, call()) == code


@pytest.mark.parametrize(
    ("message", "headers", "code"),
    [
        (call(_meta={VERSION_META: NEWEST}), RoutingHeaders(version=NEWEST), ""),
        (call(_meta={VERSION_META: NEWEST}), RoutingHeaders(), ""),
        (call(), RoutingHeaders(version="2025-06-18"), ""),
        (call(_meta={VERSION_META: NEWEST}), RoutingHeaders(version="2025-06-18"), "mcp.header_mismatch"),
        (call(_meta={VERSION_META: "2027-01-01"}), RoutingHeaders(), "mcp.version"),
        (call(_meta={VERSION_META: []}), RoutingHeaders(), "mcp.version"),
    ],
)
def test_a_revision_is_known_and_the_same(message: ClientMessage, headers: RoutingHeaders, code: str) -> None:
    assert fits(headers, message) == code


def test_a_message_states_its_revision_or_none() -> None:
    assert stated_revision(call(_meta={VERSION_META: NEWEST})) == NEWEST
    assert stated_revision(call(_meta=[])) is None


ARGUMENTS: JsonValue = {"a": {"b": ["x", 1, True, None, JsonFloat("1.5")]}}


@pytest.mark.parametrize("value", ["x", "1", "true", "1.5", encoded(b"x")])
def test_a_parameter_repeats_an_argument(value: str) -> None:
    assert fits(RoutingHeaders(parameters=(value,)), call(arguments=ARGUMENTS)) == ""


@pytest.mark.parametrize("value", ["y", "2", "false", "None", "", encoded(b"y")])
def test_a_parameter_that_repeats_nothing_is_refused(value: str) -> None:
    headers = RoutingHeaders(parameters=("x", value))
    assert fits(headers, call(arguments=ARGUMENTS)) == "mcp.header_mismatch"
    assert fits(headers, ClientMessage("prompts/get", 1, {"name": "x"})) == "mcp.header_mismatch"


def test_ids_of_sessions_are_visible_ascii() -> None:
    assert is_session_id("a.b-c~!")
    assert not any(map(is_session_id, ("", "a b", "é", "a\n")))


def test_a_name_belongs_to_methods_that_have_one() -> None:
    assert (
        fits(RoutingHeaders(name="x"), ClientMessage("tools/list", 1, {"name": "x"})) == "mcp.header_mismatch"
    )
    assert fits(RoutingHeaders(method="tools/call"), ClientMessage("", 1, {})) == "mcp.header_mismatch"
