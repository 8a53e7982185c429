"""Answers of servers: which messages pass, and when."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from egress.inspect.inspector import MAX_FACT_CHARS, AnswerError
from egress.inspect.mcp.answer import (
    MAX_DROPPED_NAMES,
    MAX_JSON_ANSWER_BYTES,
    EventAnswer,
    HeldAnswer,
    MessageFilter,
)
from egress.inspect.mcp.sessions import McpSession


@dataclass(frozen=True)
class Terms:
    shown: str = "a"
    requests: tuple[str, ...] = ()
    shows_all: bool = False

    def shows(self, kind: str, name: str) -> bool:
        del kind
        return name == self.shown

    def passes_request(self, method: str) -> bool:
        return method in self.requests


LIST = {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "a"}, {"name": "b"}]}}
SHOWN = {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "a"}]}}
ROOTS = {"jsonrpc": "2.0", "id": 9, "method": "roots/list"}
NOTE = {"jsonrpc": "2.0", "method": "notifications/progress"}


def text(value: object) -> bytes:
    return json.dumps(value).encode()


def event(value: object) -> bytes:
    return b"data: " + text(value) + b"\n\n"


def filtered(
    method: str, value: object, session: McpSession | None = None, terms: Terms | None = None
) -> object:
    judged = MessageFilter(method, session, terms or Terms()).judged(text(value))
    return None if judged is None else json.loads(judged)


def test_the_method_of_the_request_decides_whatever_the_id_says() -> None:
    assert filtered("tools/list", {**LIST, "id": 5}) == {**SHOWN, "id": 5}
    assert filtered("tools/call", LIST) == LIST
    assert filtered("tools/list", NOTE) == NOTE
    assert filtered("tools/list", LIST, terms=Terms(shows_all=True)) == LIST


def test_a_stream_knows_the_request_by_its_id_or_takes_the_worst() -> None:
    session = McpSession()
    session.of_client.add(1, "tools/call")
    assert filtered("", LIST, session) == LIST
    # It has its answer: another one with that id is of a request that nobody knows.
    assert filtered("", LIST, session) == SHOWN
    assert filtered("", LIST) == SHOWN
    assert filtered("", LIST, terms=Terms(shows_all=True)) == LIST
    assert filtered("", {**LIST, "result": {}}) == {**LIST, "result": {}}


def test_a_request_of_the_server_needs_a_rule_and_a_session() -> None:
    session, naming = McpSession(), Terms(requests=("roots/list",))
    assert filtered("tools/call", ROOTS, session) is None
    assert filtered("tools/call", ROOTS, None, naming) is None
    assert filtered("tools/call", {**ROOTS, "id": None}, session, naming) is None
    assert session.of_server.method_of(9) == ""
    assert filtered("tools/call", ROOTS, session, naming) == ROOTS
    assert session.of_server.method_of(9) == "roots/list"


def test_the_log_names_dropped_requests_once_and_counts_hidden_entries() -> None:
    messages = MessageFilter("tools/list", None, Terms())
    assert messages.log() == {}
    for value in (ROOTS, ROOTS, {**ROOTS, "method": "ping"}, LIST):
        messages.judged(text(value))
    assert messages.log() == {"mcp_hidden": 1, "mcp_dropped": "roots/list ping"}


@pytest.mark.parametrize(("method", "code"), [("tools/list", "mcp.list"), ("tools/call", "mcp.answer")])
def test_an_answer_that_cannot_be_read_has_the_code_of_its_request(method: str, code: str) -> None:
    answer = HeldAnswer(MessageFilter(method, None, Terms()), is_answer=True)
    assert answer.feed(b"{") == []
    assert answer.held == 1
    with pytest.raises(AnswerError) as caught:
        answer.end()
    assert caught.value.code == code
    stream = EventAnswer(MessageFilter(method, None, Terms()))
    with pytest.raises(AnswerError) as caught:
        stream.feed(b"data: {\n\n")
    assert caught.value.code == code


def test_an_answer_in_json_is_bounded() -> None:
    answer = HeldAnswer(MessageFilter("tools/list", None, Terms()), is_answer=True)
    answer.feed(b" " * MAX_JSON_ANSWER_BYTES)
    with pytest.raises(AnswerError):
        answer.feed(b" ")


def test_a_request_in_the_place_of_an_answer_is_none() -> None:
    answer = HeldAnswer(MessageFilter("tools/call", None, Terms()), is_answer=True)
    answer.feed(text(ROOTS))
    with pytest.raises(AnswerError):
        answer.end()
    assert answer.log() == {"mcp_dropped": "roots/list"}


@pytest.mark.parametrize(
    ("body", "passed"), [(b"", []), (b'{"error":"x"}', [b'{"error":"x"}']), (b"{", [b"{"])]
)
def test_the_text_of_an_error_passes_as_it_is(body: bytes, passed: list[bytes]) -> None:
    answer = HeldAnswer(MessageFilter("tools/list", None, Terms()), is_answer=False)
    answer.feed(body)
    assert answer.end() == passed


def test_a_list_in_an_error_is_a_list_all_the_same() -> None:
    answer = HeldAnswer(MessageFilter("tools/list", None, Terms()), is_answer=False)
    answer.feed(text(LIST))
    assert [json.loads(each) for each in answer.end()] == [SHOWN]


def test_events_pass_one_by_one_and_those_of_other_kinds_do_not() -> None:
    stream = EventAnswer(MessageFilter("tools/list", None, Terms()))
    assert stream.feed(event(NOTE)[:-1]) == []
    assert stream.held > 0
    assert stream.feed(b"\n") == [event(NOTE)]
    assert stream.feed(b"event: ping\ndata: {}\n\n") == [b":\n\n"]
    assert stream.feed(b"id: 4\ndata:\n\n") == [b"id: 4\ndata: \n\n"]
    assert stream.feed(b"id: 5\n" + event(ROOTS)) == [b"id: 5\ndata: \n\n"]
    assert stream.feed(event(LIST)[:-2]) == []
    assert stream.end() == []
    assert stream.log() == {"mcp_dropped": "roots/list"}
    with pytest.raises(AnswerError) as caught:
        stream.feed(b"\n\nevent: endpoint\ndata: /messages\n\n")
    assert caught.value.code == "mcp.transport"


ASKING = {"resultType": "input_required", "inputRequests": {"x": {"method": "sampling/createMessage"}}}
PAGES = {"code": -32042, "message": "visit", "data": {"elicitations": [{"mode": "url", "url": "https://x"}]}}


@pytest.mark.parametrize("is_passing_lists", [True, False])
@pytest.mark.parametrize("method", ["tools/list", "tools/call", ""])
def test_no_result_asks_for_what_no_rule_names(method: str, *, is_passing_lists: bool) -> None:
    value = {"jsonrpc": "2.0", "id": 1, "result": {**ASKING, "tools": []}}
    said = filtered(method, value, terms=Terms(shows_all=is_passing_lists))
    assert isinstance(said, dict)
    assert said["error"]["data"] == {"code": "mcp.server_request"}
    assert filtered(method, value, terms=Terms(requests=("sampling/createMessage",))) == value


def test_an_error_that_sends_its_reader_to_pages_is_a_request_of_the_server() -> None:
    value = {"jsonrpc": "2.0", "id": 1, "error": PAGES}
    said = filtered("tools/call", value)
    assert isinstance(said, dict)
    assert said["error"]["data"] == {"code": "mcp.server_request"}
    assert filtered("tools/call", value, terms=Terms(requests=("elicitation/create",))) == value
    for data in (None, "x", {}, {"page": 1}):
        other = {"jsonrpc": "2.0", "id": 1, "error": {**PAGES, "data": data}}
        assert filtered("tools/call", other) == other


def test_an_id_that_two_requests_share_tells_of_no_method() -> None:
    session = McpSession()
    session.of_client.add(1, "tools/list")
    session.of_client.add(1, "tools/call")
    assert filtered("", LIST, session) == SHOWN


def test_what_a_stream_remembers_of_dropped_requests_is_bounded() -> None:
    messages = MessageFilter("", None, Terms())
    for number in range(100):
        messages.judged(text({**ROOTS, "method": f"{number}/{'x' * 10_000}"}))
    assert len(messages._dropped) == MAX_DROPPED_NAMES
    assert sum(map(len, messages._dropped)) <= MAX_DROPPED_NAMES * MAX_FACT_CHARS
