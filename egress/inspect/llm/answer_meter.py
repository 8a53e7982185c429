"""The meter of an answer: its usage, read while it streams by.

An answer is one JSON object, a stream of server-sent events, or the binary event stream of AWS. Numbers of a
stream are totals, so the last of each counts. Nothing is held back, with one exception: where the proxy
itself asked a chat API for the usage of a stream, the chunk that holds it is taken out again.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from egress.errors import WireError
from egress.inspect.inspector import AnswerError, FactValue
from egress.inspect.llm.event_stream import EventMessage, EventStreamReader
from egress.inspect.llm.json_scan import JsonFieldScan, parse_json
from egress.inspect.llm.sse import SseEvent, SseReader
from egress.inspect.llm.usage import LlmApi, Usage, merge_usage, read_usage
from egress.inspect.strict_json import JsonValue
from egress.types import Headers, value_class

EVENT_STREAM_TYPE: Final = "application/vnd.amazon.eventstream"
SSE_TYPE: Final = "text/event-stream"
_INVOKE_METRICS: Final = "amazon-bedrock-invocationMetrics"
_INVOKE_HEADERS: Final = {
    "x-amzn-bedrock-input-token-count": "inputTokenCount",
    "x-amzn-bedrock-output-token-count": "outputTokenCount",
}
MAX_HEADER_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class _AnswerNames:
    """Where the answers of an API say what they have used."""

    usage: str = "usage"
    model: str = "model"
    inner: str = ""
    """The field of an event that holds an object like a whole answer."""
    text: str = ""
    """The field of an event with the text that was made."""


_NAMES: Final[Mapping[LlmApi, _AnswerNames]] = {
    "anthropic": _AnswerNames(inner="message", text="delta"),
    "openai-chat": _AnswerNames(text="choices"),
    "openai-responses": _AnswerNames(inner="response", text="delta"),
    "openai-embeddings": _AnswerNames(),
    "gemini": _AnswerNames(usage="usageMetadata", model="modelVersion", text="candidates"),
    "bedrock-converse": _AnswerNames(text="delta"),
    "bedrock-invoke": _AnswerNames(inner="message", text="delta"),
}
_INVOKE_TOP: Final = ("prompt_token_count", "generation_token_count", "inputTextTokenCount")


@value_class
class MeteredAnswer:
    """What an answer has used, as far as it came."""

    status: int = 0
    """The status of the response; 0 where none came."""
    usage: Usage | None = None
    """None where it stated nothing."""
    states_output: bool = False
    """The usage has the output that was made so far. At first some streams state their input alone."""
    text_bytes: int = 0
    """Bytes of text that were made, for a stream that ended early."""
    is_stream: bool = False
    is_whole: bool = False
    """The answer came to its end."""
    has_unread: bool = False
    """A part of it was too long to be read."""


class AnswerMeter:
    """Reads one answer."""

    def __init__(self, api: LlmApi, *, drops_usage: bool = False) -> None:
        """`drops_usage`: the chunk with the usage of a chat stream is taken out."""
        self._api = api
        self._names = _NAMES[api]
        self._drops_usage = drops_usage
        self._usage: dict[str, JsonValue] = {}
        self._model = self._tier = ""
        self._text_bytes = self._status = 0
        self._has_unread = self._is_whole = self._states_output = False
        self._scan: JsonFieldScan | None = None
        self._sse: SseReader | None = None
        self._events: EventStreamReader | None = None

    @property
    def changes_length(self) -> bool:
        """A chunk may be taken out."""
        return self._drops_usage

    holds_head = False

    @property
    def held(self) -> int:
        """The bytes of the event that is not complete yet."""
        return 0 if self._sse is None else self._sse.held

    def log(self) -> Mapping[str, FactValue]:
        """Return nothing: the settling of the call has all that is recorded."""
        return {}

    def begin(self, status: int, headers: Headers, *, has_body: bool) -> bool:
        """Take the head of a response; return whether its body is read."""
        self._status = status
        fields = dict(headers)
        kind = fields.get("content-type", "").partition(";")[0].strip(" \t").lower()
        if kind == SSE_TYPE:
            self._sse = SseReader()
        elif kind == EVENT_STREAM_TYPE:
            self._events = EventStreamReader()
        else:
            wanted = {self._names.usage, self._names.model, "service_tier", *_INVOKE_TOP}
            self._scan = JsonFieldScan(frozenset(wanted), self._field)
        if self._api == "bedrock-invoke":
            for name, key in _INVOKE_HEADERS.items():
                digits = fields.get(name, "")
                if digits.isascii() and digits.isdecimal() and len(digits) <= MAX_HEADER_DIGITS:
                    self._usage[key] = int(digits)
        return has_body

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; return those that go on. Raises `AnswerError` for a broken event stream."""
        if self._sse is not None:
            passed = [event.raw for event in self._sse.feed(data) if self._passes(event)]
            return passed if self._drops_usage else [data]
        if self._events is not None:
            try:
                for message in self._events.feed(data):
                    self._message(message)
            except WireError:
                raise AnswerError("upstream.malformed") from None
        elif self._scan is not None:
            self._scan.feed(data)
        return [data]

    def end(self) -> list[bytes]:
        """Take the end of the answer; return bytes that were held. Raises `AnswerError` as `feed`."""
        if self._events is not None:
            try:
                self._events.end()
            except WireError:
                raise AnswerError("upstream.malformed") from None
        last = self._sse.end() if self._sse is not None else None
        passes = last is not None and self._passes(last)
        self._is_whole = True
        return [last.raw] if last is not None and passes and self._drops_usage else []

    @property
    def found(self) -> MeteredAnswer:
        """Return what was found so far."""
        usage = (
            read_usage(self._api, self._usage, tier=self._tier, model=self._model) if self._usage else None
        )
        return MeteredAnswer(
            self._status,
            usage,
            states_output=self._states_output,
            text_bytes=self._text_bytes,
            is_stream=self._scan is None,
            is_whole=self._is_whole,
            has_unread=self._has_unread,
        )

    # Inside

    def _field(self, name: str, value: JsonValue) -> None:
        self._object({name: value})

    def _passes(self, event: SseEvent) -> bool:
        """Read an event; tell whether the client gets it."""
        if event.is_unread:
            self._has_unread = True
            return True
        value = _parsed(event.data)
        if value is None:
            return True
        self._event(value)
        # Any other chunk has choices; a vendor that sends something else without them means it for the
        # client.
        is_added = value.get("choices") == [] and isinstance(value.get("usage"), dict)
        return not (self._drops_usage and is_added)

    def _message(self, message: EventMessage) -> None:
        value = _parsed(message.payload)
        if value is None:
            return
        coded = value.get("bytes")
        if self._api == "bedrock-invoke" and isinstance(coded, str):
            try:
                value = _parsed(base64.b64decode(coded, validate=True)) or {}
            except (ValueError, binascii.Error):
                return
        self._event(value)

    def _event(self, value: dict[str, JsonValue]) -> None:
        self._object(value)
        inner = value.get(self._names.inner) if self._names.inner else None
        if isinstance(inner, dict):
            self._object(inner, is_start=value.get("type") == "message_start")
        text = value.get(self._names.text)
        if text is None and self._api == "bedrock-invoke":
            text = value
        self._text_bytes += _text_bytes(text)

    def _object(self, value: Mapping[str, JsonValue], *, is_start: bool = False) -> None:
        for stated in (value.get(self._names.usage), value.get(_INVOKE_METRICS)):
            if isinstance(stated, dict):
                merge_usage(self._usage, stated)
                self._states_output = self._states_output or not is_start
        if self._api == "bedrock-invoke":
            merge_usage(self._usage, {name: value[name] for name in _INVOKE_TOP if name in value})
        model, tier = value.get(self._names.model), value.get("service_tier")
        # Both end in records, where a foreign text must not be long.
        self._model = model[:256] if isinstance(model, str) else self._model
        self._tier = tier[:32] if isinstance(tier, str) else self._tier


def _parsed(text: bytes) -> dict[str, JsonValue] | None:
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _text_bytes(value: JsonValue) -> int:
    """Return the length of all texts within a value."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "replace"))
    if isinstance(value, dict):
        return sum(map(_text_bytes, value.values()))
    return sum(map(_text_bytes, value)) if isinstance(value, list) else 0
