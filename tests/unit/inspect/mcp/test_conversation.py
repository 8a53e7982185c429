"""Requests in the sessions of their sandbox, and the heads of the answers to them."""

from __future__ import annotations

import json

import pytest

from egress.inspect.inspector import AnswerError, AnswerReader, Facts, Unreadable
from egress.inspect.kinds import KINDS, inspect_whole
from egress.inspect.mcp.conversation import SessionPlace
from egress.inspect.mcp.requested import ClientReply
from egress.inspect.mcp.sessions import McpSessions
from egress.rules.decide.mcp_predicate import McpAnswerTerms, McpPredicate
from egress.types import Head
from tests.unit.inspect.mcp.vectors import JSON_TYPE, SEARCH, message, routed

HOST = "mcp.example.test"
TERMS = McpAnswerTerms((McpPredicate(server_requests=("roots/list",)),), ())
JSON = (("content-type", JSON_TYPE),)
EVENTS = (("content-type", "text/event-stream; charset=utf-8"),)
INITIALIZE = message("initialize")


class Box:
    """A sandbox, as far as it has sessions."""

    def __init__(self) -> None:
        self.sessions = McpSessions()
        self.place = SessionPlace(self.sessions, HOST, 443)

    def ask(self, body: bytes = b"", session: str = "", method: str = "POST") -> Facts | Unreadable:
        named = {"mcp_session_id": session} if session else {}
        head = Head(method, "https", HOST, 443, "/mcp", routed(**named))
        return self.place.placed(inspect_whole(KINDS["mcp"], head, body))

    def reader(
        self, body: bytes = b"", session: str = "", method: str = "POST", terms: object = TERMS
    ) -> AnswerReader:
        found = self.ask(body, session, method)
        assert isinstance(found, Facts)
        assert found.answers is not None
        return found.answers.answer_reader(terms)

    def begin(self, *given: str) -> None:
        """Begin a session."""
        headers = (*JSON, *(("mcp-session-id", each) for each in given))
        self.reader(INITIALIZE).begin(200, headers, has_body=True)


def test_a_session_is_that_of_the_answer_to_initialize() -> None:
    box = Box()
    assert isinstance(box.ask(SEARCH), Facts)
    found = box.ask(SEARCH, "s")
    assert isinstance(found, Unreadable)
    assert found.code == "mcp.session"
    box.begin("s")
    assert isinstance(box.ask(SEARCH, "s"), Facts)
    assert isinstance(Box().ask(SEARCH, "s"), Unreadable)


@pytest.mark.parametrize(("body", "status"), [(INITIALIZE, 404), (SEARCH, 200)])
def test_no_other_answer_begins_a_session(body: bytes, status: int) -> None:
    box = Box()
    box.reader(body).begin(status, (*JSON, ("mcp-session-id", "s")), has_body=True)
    assert isinstance(box.ask(SEARCH, "s"), Unreadable)


@pytest.mark.parametrize("given", [("a", "b"), ("",), ("a b",), ("x" * 3000,)])
def test_an_odd_id_of_a_session_is_a_fault_of_the_server(given: tuple[str, ...]) -> None:
    with pytest.raises(AnswerError) as caught:
        Box().begin(*given)
    assert caught.value.code == "mcp.answer"


@pytest.mark.parametrize(("status", "is_known"), [(200, False), (405, True)])
def test_a_session_ends_where_the_server_says_so(status: int, is_known: bool) -> None:
    box = Box()
    box.begin("s")
    assert not box.reader(session="s", method="DELETE").begin(status, JSON, has_body=True)
    assert isinstance(box.ask(SEARCH, "s"), Facts) is is_known


def test_a_reply_has_the_method_of_an_open_request_until_it_is_sent() -> None:
    box = Box()
    box.begin("s")
    stream = box.reader(SEARCH, "s")
    assert stream.begin(200, EVENTS, has_body=True)
    asked = json.dumps({"jsonrpc": "2.0", "id": 9, "method": "roots/list"}).encode()
    assert stream.feed(b"data: " + asked + b"\n\n")
    reply = b'{"jsonrpc":"2.0","id":9,"result":{}}'
    for items in ((ClientReply("roots/list"),), (ClientReply("roots/list"),)):
        found = box.ask(reply, "s")
        assert isinstance(found, Facts)
        assert found.items == items
    box.reader(reply, "s").begin(202, (), has_body=False)
    found = box.ask(reply, "s")
    assert isinstance(found, Facts)
    assert found.items == (ClientReply(""),)
    without = box.ask(reply)
    assert isinstance(without, Facts)
    assert without.items == (ClientReply(""),)


@pytest.mark.parametrize(
    ("method", "status", "headers", "has_body", "is_read", "holds"),
    [
        ("POST", 200, JSON, True, True, True),
        ("POST", 401, JSON, True, True, True),
        ("POST", 200, (("content-type", 'Application/JSON; charset="UTF-8"'),), True, True, True),
        ("POST", 200, EVENTS, True, True, False),
        ("POST", 200, JSON, False, False, False),
        ("POST", 404, (("content-type", "text/plain"),), True, False, False),
        ("GET", 200, EVENTS, True, True, False),
        ("GET", 405, JSON, True, True, True),
        ("DELETE", 200, JSON, True, False, False),
    ],
)  # fmt: skip
def test_a_body_is_read_by_its_type(
    method: str, status: int, headers: tuple[tuple[str, str], ...], has_body: bool, is_read: bool, holds: bool
) -> None:
    box = Box()
    box.begin("s")
    reader = box.reader(SEARCH if method == "POST" else b"", "s", method)
    assert reader.begin(status, headers, has_body=has_body) is is_read
    assert reader.holds_head is holds
    assert reader.changes_length
    assert reader.held == 0


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", ()),
        ("POST", (("content-type", "text/html"),)),
        ("POST", JSON + EVENTS),
        ("GET", JSON),
        ("GET", ()),
    ],
)
def test_an_answer_of_another_type_is_refused(method: str, headers: tuple[tuple[str, str], ...]) -> None:
    box = Box()
    box.begin("s")
    reader = box.reader(SEARCH if method == "POST" else b"", "s", method)
    with pytest.raises(AnswerError):
        reader.begin(200, headers, has_body=True)


def test_nothing_is_read_where_the_rules_only_observe() -> None:
    assert not Box().reader(SEARCH, terms=None).begin(200, JSON, has_body=True)


def test_the_answer_to_a_notification_may_be_anything() -> None:
    body = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    assert not Box().reader(body).begin(202, (("content-type", "text/plain"),), has_body=True)


def test_a_list_that_was_asked_for_without_an_id_is_filtered_as_well() -> None:
    body = b'{"jsonrpc":"2.0","method":"tools/list"}'
    with pytest.raises(AnswerError):
        Box().reader(body).begin(200, (("content-type", "text/plain"),), has_body=True)
    reader = Box().reader(body)
    assert reader.begin(200, JSON, has_body=True)
    reader.feed(b'{"result":{"tools":[{"name":"delete_repo"}]}}')
    with pytest.raises(AnswerError):
        reader.end()


def test_a_reader_without_a_body_keeps_and_says_nothing() -> None:
    reader = Box().reader(SEARCH)
    assert (reader.feed(b"x"), reader.end(), reader.log()) == ([], [], {})


def test_what_cannot_be_read_stays_so() -> None:
    found = Box().ask(b"{}")
    assert isinstance(found, Unreadable)
    assert found.code == "mcp.message"
