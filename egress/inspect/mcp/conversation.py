"""A request of MCP in the sessions of its sandbox, and the answer to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from egress.inspect.inspector import AnswerError, AnswerReader, Facts, FactValue, Unreadable
from egress.inspect.mcp.answer import AnswerTerms, EventAnswer, HeldAnswer, MessageFilter
from egress.inspect.mcp.mcp_kind import McpAsked
from egress.inspect.mcp.requested import ClientReply
from egress.inspect.mcp.routing_headers import is_session_id
from egress.inspect.mcp.server_message import LIST_METHODS
from egress.inspect.mcp.sessions import McpSession, McpSessions
from egress.types import Headers

_UTF_8: Final = re.compile(r"charset=(\"?)utf-?8\1[ \t]*(?:;|$)")
_SESSION_HEADER: Final = "mcp-session-id"


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """The sessions of a sandbox, as far as they are with one server."""

    sessions: McpSessions
    host: str
    port: int

    def find(self, session_id: str) -> McpSession | None:
        return self.sessions.find(self.host, self.port, session_id)

    def placed(self, found: Facts | Unreadable) -> Facts | Unreadable:
        """Return the facts of a request as its session knows them."""
        asked = found.context
        if isinstance(found, Unreadable) or not isinstance(asked, McpAsked):
            return found
        session = None if asked.session is None else self.find(asked.session)
        if asked.session is not None and session is None:
            return Unreadable("mcp.session", "the sandbox has received no session of this id there", asked)
        items = found.items
        if asked.is_response and session is not None and asked.message_id is not None:
            items = (ClientReply(session.of_server.method_of(asked.message_id)),)
        return replace(found, items=items, answers=McpConversation(self, asked, session))


@dataclass(frozen=True, slots=True)
class McpConversation:
    """A judged request in its session."""

    place: SessionPlace
    asked: McpAsked
    session: McpSession | None

    def answer_reader(self, terms: object) -> AnswerReader:
        return McpAnswerReader(self, terms if isinstance(terms, AnswerTerms) else None)

    def begin_answer(self, headers: Headers, *, is_success: bool) -> McpSession | None:
        """Note the beginning and the end of a session, and the requests that are open or answered."""
        asked, session, place = self.asked, self.session, self.place
        if asked.method == "initialize" and is_success:
            given = [value.strip(" \t") for name, value in headers if name == _SESSION_HEADER]
            if len(given) > 1 or not all(is_session_id(each) for each in given):
                raise AnswerError("mcp.answer")
            if given:
                session = place.sessions.bind(place.host, place.port, given[0])
        if session is None:
            return None
        if asked.http_method == "DELETE" and is_success and asked.session is not None:
            place.sessions.end(place.host, place.port, asked.session)
        if asked.is_request and asked.message_id is not None:
            session.of_client.add(asked.message_id, asked.method)
        if asked.is_response and asked.message_id is not None:
            session.of_server.close(asked.message_id)
        return session


class McpAnswerReader:
    """The reader of an answer, once its head says how it is written."""

    changes_length = True

    def __init__(self, conversation: McpConversation, terms: AnswerTerms | None) -> None:
        self._conversation = conversation
        self._terms = terms
        self._messages: MessageFilter | None = None
        self._body: HeldAnswer | EventAnswer | None = None

    @property
    def holds_head(self) -> bool:
        return isinstance(self._body, HeldAnswer)

    @property
    def held(self) -> int:
        return 0 if self._body is None else self._body.held

    def begin(self, status: int, headers: Headers, *, has_body: bool) -> bool:
        conversation, terms, is_success = self._conversation, self._terms, 200 <= status < 300
        asked = conversation.asked
        session = conversation.begin_answer(headers, is_success=is_success)
        # In observe mode nothing is kept from the client.
        if terms is None or not has_body or asked.http_method == "DELETE":
            return False
        is_stream = asked.http_method == "GET"
        self._messages = messages = MessageFilter("" if is_stream else asked.method, session, terms)
        # Some servers send a list even where the request has no id, and asks for no answer.
        is_awaited = is_success and (asked.is_request or is_stream or asked.method in LIST_METHODS)
        media_type = _media_type(headers)
        if media_type == "text/event-stream":
            self._body = EventAnswer(messages)
        elif media_type == "application/json" and not (is_success and is_stream):
            self._body = HeldAnswer(messages, is_answer=is_awaited)
        elif is_awaited:
            raise AnswerError(messages.code)
        return self._body is not None

    def feed(self, data: bytes) -> list[bytes]:
        return [] if self._body is None else self._body.feed(data)

    def end(self) -> list[bytes]:
        return [] if self._body is None else self._body.end()

    def log(self) -> Mapping[str, FactValue]:
        return {} if self._messages is None else self._messages.log()


def _media_type(headers: Headers) -> str:
    """Return the type of the body, in lower case; empty for none that all clients read alike."""
    types = [value.lower() for name, value in headers if name == "content-type"]
    if len(types) != 1:
        return ""
    media_type, _, parameters = types[0].partition(";")
    # Another charset makes other text of the same bytes.
    charsets = parameters.count("charset")
    is_plain = charsets == 0 or (charsets == 1 and _UTF_8.search(parameters) is not None)
    return media_type.strip(" \t") if is_plain else ""
