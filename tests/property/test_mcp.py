"""Messages, headers and answers of MCP against any values: total, and the same in every reading."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from egress.errors import CODES
from egress.inspect.inspector import Facts, Unreadable
from egress.inspect.kinds import KINDS, inspect_whole
from egress.inspect.mcp.event_stream import EventReader, StreamEvent
from egress.inspect.mcp.server_message import (
    ServerMessageError,
    filtered_list,
    read_server_message,
    write_json,
)
from egress.inspect.strict_json import read_strict_json
from egress.rules.decide.argument_conditions import ArgumentCondition
from egress.rules.decide.globs import ValueGlob
from egress.rules.decide.mcp_predicate import McpPredicate, ToolTerms
from egress.types import Head
from tests.property.test_strict_json import VALUES

NAMES = st.sampled_from(["name", "uri", "ref", "type", "arguments", "_meta", "Name", "inputResponses", "x"])
PARAMS = st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, VALUES, max_size=3), max_size=4)
METHODS = st.sampled_from(
    ["tools/call", "resources/read", "prompts/get", "completion/complete", "ping", "", "a b"]
)
ROUTING = st.sampled_from(
    ["mcp-method", "mcp_name", "mcp-name", "mcp-protocol-version", "mcp-session-id", "mcp-param-x"]
)
HEADERS = st.lists(st.tuples(ROUTING, st.text(st.characters(max_codepoint=255), max_size=12)), max_size=3)


def head(headers: list[tuple[str, str]]) -> Head:
    return Head("POST", "https", "mcp.example.test", 443, "/mcp", tuple(headers))


@given(st.binary(max_size=60), HEADERS)
def test_any_body_has_facts_or_a_code(data: bytes, headers: list[tuple[str, str]]) -> None:
    found = inspect_whole(KINDS["mcp"], head(headers), data)
    assert isinstance(found, Facts) or found.code in CODES


@given(METHODS, PARAMS, HEADERS, VALUES)
def test_any_message_has_facts_or_a_code(
    method: str, params: dict[str, object], headers: list[tuple[str, str]], message_id: object
) -> None:
    data = json.dumps({"jsonrpc": "2.0", "id": message_id, "method": method, "params": params}).encode()
    found = inspect_whole(KINDS["mcp"], head(headers), data)
    if isinstance(found, Unreadable):
        assert found.code in CODES
        return
    predicate = McpPredicate((ToolTerms(ValueGlob("*"), is_only=True),))
    for item in found.items:
        miss = predicate.misses(item)
        assert miss is None or miss.code in CODES


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.lists(NAMES | st.just("*"), min_size=1, max_size=3))
def test_any_arguments_are_judged(arguments: dict[str, object], path: list[str]) -> None:
    value = read_strict_json(json.dumps(arguments).encode())
    assert isinstance(value, dict)
    for made in (
        ArgumentCondition(tuple(path), (ValueGlob("*"), True)),
        ArgumentCondition(tuple(path), is_absent=True),
    ):
        assert made.holds(value) in (True, False)
    there, gone = (
        ArgumentCondition((path[0],), (ValueGlob("*"),)),
        ArgumentCondition((path[0],), is_absent=True),
    )
    assert not (there.holds(value) and gone.holds(value))


@given(VALUES)
def test_any_value_is_written_as_it_was_read(value: object) -> None:
    data = json.dumps(value).encode()
    assert json.loads(write_json(read_strict_json(data))) == json.loads(data)


@given(st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "result", "error", "Result"]), VALUES))
def test_any_message_of_a_server_is_read_or_refused(value: dict[str, object]) -> None:
    try:
        message = read_server_message(json.dumps({**value, "jsonrpc": "2.0"}).encode())
        assert message.input_requests is None or isinstance(message.input_requests, tuple)
        filtered_list(message, "tools/list", lambda _kind, _name: False)
    except ServerMessageError:
        return


FIELDS = st.sampled_from([b"data: a", b"data", b"event: message", b"id: 1", b": c", b"retry: 2", b"x", b""])
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(st.lists(st.tuples(FIELDS, ENDS), max_size=12), st.lists(st.integers(0, 80), max_size=5))
def test_events_do_not_depend_on_the_pieces(lines: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    stream = b"".join(line + end for line, end in lines)
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    whole, pieces = EventReader(), EventReader()
    parts = [stream[start:end] for start, end in pairwise(places)]
    found = [event for part in parts for event in pieces.feed(part)]
    assert found == list(whole.feed(stream))
    assert all(isinstance(event, StreamEvent) for event in found)
    # Written anew, each event is read as itself.
    again = [event for each in found for event in EventReader().feed(each.written(each.data))]
    assert [each.data for each in again] == [each.data for each in found]
