"""The answer to a request of MCP: what of it reaches the client.

Lists lose the entries that no rule shows, and requests of the server that no rule names are dropped. An
answer that cannot be read does not pass: as JSON it is held until its end, as an event stream each event is,
and a stream is never held longer than that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, Protocol, runtime_checkable

from egress.errors import CODES
from egress.inspect.inspector import AnswerError, FactValue, fact_text
from egress.inspect.mcp.event_stream import KEEP_ALIVE, EventReader, EventStreamError, StreamEvent
from egress.inspect.mcp.mcp_kind import DENIED_ERROR
from egress.inspect.mcp.message import MessageId
from egress.inspect.mcp.server_message import (
    LIST_METHODS,
    ServerMessage,
    ServerMessageError,
    filtered_list,
    read_server_message,
)
from egress.inspect.mcp.sessions import McpSession

MAX_JSON_ANSWER_BYTES: Final = 4 * 1024 * 1024
"""Bytes of an answer in JSON, which is held until its end."""
MAX_DROPPED_NAMES: Final = 16
"""Methods of dropped requests that the record of one answer names."""
REFUSED_REQUEST_CODE: Final = "mcp.server_request"


@runtime_checkable
class AnswerTerms(Protocol):
    """The parts of an answer that may reach the client, by the rules."""

    @property
    def shows_all(self) -> bool:
        """Lists pass as they come."""
        ...

    def shows(self, kind: str, name: str) -> bool:
        """Tell whether an entry of a list is shown; `kind` is tool, resource or prompt."""
        ...

    def passes_request(self, method: str) -> bool:
        """Tell whether a request of the server reaches the client."""
        ...


class MessageFilter:
    """Judges each message of an answer by the rules."""

    def __init__(self, method: str, session: McpSession | None, terms: AnswerTerms) -> None:
        """`method` is that of the request; empty for the stream of a session, which has many answers."""
        self._method = method
        self._session = session
        self._terms = terms
        self._hidden = 0
        self._dropped: dict[str, None] = {}

    @property
    def code(self) -> str:
        """The code of an answer that cannot be read."""
        return "mcp.list" if self._method in LIST_METHODS else "mcp.answer"

    def log(self) -> Mapping[str, FactValue]:
        """Return the findings for the record."""
        log: dict[str, FactValue] = {"mcp_hidden": self._hidden} if self._hidden else {}
        if self._dropped:
            log["mcp_dropped"] = fact_text(" ".join(self._dropped))
        return log

    def judged(self, data: bytes) -> bytes | None:
        """Return the message as it may pass; None for one that does not. Raises `ServerMessageError`."""
        message = read_server_message(data)
        match message.kind:
            case "request":
                return data if self._passes(message) else None
            case "result":
                return self._judged_result(message, data)
            case "error":
                self._close(message.message_id)
                return self._refused_input(message) or data
            case _:
                return data

    def _passes(self, message: ServerMessage) -> bool:
        session, message_id = self._session, message.message_id
        if message_id is None or session is None or not self._terms.passes_request(message.method):
            self._note_dropped(message.method)
            return False
        session.of_server.add(message_id, message.method)
        return True

    def _judged_result(self, message: ServerMessage, data: bytes) -> bytes:
        method = self._method
        if not method and self._session is not None and message.message_id is not None:
            method = self._session.of_client.method_of(message.message_id)
        self._close(message.message_id)
        if (refusal := self._refused_input(message)) is not None:
            return refusal
        if self._terms.shows_all:
            return data
        if method in LIST_METHODS:
            return self._shown(message, method, data)
        if not method and isinstance(message.result, Mapping):
            # The request is not known, so any list in its result is taken for the one that it asked for.
            for each, (key, _, _) in LIST_METHODS.items():
                if key in message.result:
                    return self._shown(message, each, data)
        return data

    def _shown(self, message: ServerMessage, method: str, data: bytes) -> bytes:
        filtered = filtered_list(message, method, self._terms.shows)
        if filtered is None:
            return data
        self._hidden += filtered[1]
        return filtered[0]

    def _refused_input(self, message: ServerMessage) -> bytes | None:
        """Return the error in the place of a response that asks for something no rule names; else None."""
        asked = message.input_requests
        if asked is None:
            raise ServerMessageError("its requests for input are malformed")
        refused = [method for method in asked if not self._terms.passes_request(method)]
        for method in refused:
            self._note_dropped(method)
        return _refusal(message.message_id) if refused else None

    def _note_dropped(self, method: str) -> None:
        # The server chooses the names, and a stream may last for days.
        if len(self._dropped) < MAX_DROPPED_NAMES:
            self._dropped[fact_text(method)] = None

    def _close(self, message_id: MessageId | None) -> None:
        if self._session is not None and message_id is not None:
            self._session.of_client.close(message_id)


class HeldAnswer:
    """An answer that is one message. Nothing of it passes before its end, nor does its head."""

    holds_head = True

    def __init__(self, messages: MessageFilter, *, is_answer: bool) -> None:
        """`is_answer` says that the client takes the body for its answer, not for the text of an error."""
        self._messages = messages
        self._is_answer = is_answer
        self._data = bytearray()

    @property
    def held(self) -> int:
        return len(self._data)

    def feed(self, data: bytes) -> list[bytes]:
        self._data += data
        if len(self._data) > MAX_JSON_ANSWER_BYTES:
            raise AnswerError(self._messages.code)
        return []

    def end(self) -> list[bytes]:
        data = bytes(self._data)
        self._data.clear()
        try:
            judged = self._messages.judged(data)
        except ServerMessageError:
            if self._is_answer:
                raise AnswerError(self._messages.code) from None
            return [data] if data else []
        if judged is None:
            # A request stands where the answer to one belongs.
            raise AnswerError(self._messages.code)
        return [judged]

    def log(self) -> Mapping[str, FactValue]:
        return self._messages.log()


class EventAnswer:
    """An answer that is a stream of messages. Each passes as soon as it is whole."""

    holds_head = False

    def __init__(self, messages: MessageFilter) -> None:
        self._messages = messages
        self._reader = EventReader()

    @property
    def held(self) -> int:
        return self._reader.held

    def feed(self, data: bytes) -> list[bytes]:
        try:
            return [self._judged(event) for event in self._reader.feed(data)]
        except (EventStreamError, ServerMessageError):
            raise AnswerError(self._messages.code) from None

    def end(self) -> list[bytes]:
        # An event without its end is none: a client that takes it all the same must not see it.
        return []

    def log(self) -> Mapping[str, FactValue]:
        return self._messages.log()

    def _judged(self, event: StreamEvent) -> bytes:
        if event.kind == b"endpoint":
            # With it a server of 2024 says where to send messages to: it could be anywhere.
            raise AnswerError("mcp.transport")
        if event.kind not in (b"", b"message"):
            return KEEP_ALIVE
        if not event.data:
            return event.written(b"")
        judged = self._messages.judged(event.data)
        # The id of an event that is dropped still tells where to go on.
        return event.written(judged or b"")


def _refusal(message_id: MessageId | None) -> bytes:
    """Return the error in the place of a result that asks the client for something."""
    data = {"code": REFUSED_REQUEST_CODE}
    error = {"code": DENIED_ERROR, "message": f"Egress: {CODES[REFUSED_REQUEST_CODE].message}", "data": data}
    return json.dumps({"jsonrpc": "2.0", "id": message_id, "error": error}).encode()
