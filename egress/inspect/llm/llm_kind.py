"""Calls of language models as kinds of body: one for each API, since each reads a body in its own way."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final
from urllib.parse import unquote_plus

from egress.inspect.inspector import (
    Facts,
    FactValue,
    Inspector,
    Refusal,
    RefusalAnswer,
    Unreadable,
    fact_text,
)
from egress.inspect.llm.llm_call import LlmCall
from egress.inspect.llm.provider_errors import provider_answer
from egress.inspect.llm.request_fields import LlmRequestError
from egress.inspect.llm.request_shapes import RequestTarget, read_call, read_target
from egress.inspect.llm.usage import LlmApi
from egress.inspect.strict_json import StrictJsonError, read_strict_json
from egress.inspect.whole_body import WholeBody
from egress.request_name_folding import fold_header
from egress.types import Head, Headers

MAX_LLM_BYTES: Final = 16 << 20
"""Bytes of a body. Reading takes 11 ms a MiB of pictures, during which the event loop stands still."""
LLM_KEY: Final = "llm"
"""The key of the predicate in a rule; the name of a kind has the API behind it."""
_SIGNING_HEADERS: Final = frozenset(
    {"signature", "digest", "content-digest", "repr-digest", "content-md5", "x-amz-content-sha256"}
)
_AWS_SIGNATURE: Final = "AWS4-"
_TIER_HEADERS: Final = frozenset({"x-amzn-bedrock-service-tier", "x-amzn-bedrock-performanceconfig-latency"})
_FIELD_MASK: Final = "x-goog-fieldmask"
_GEMINI_PARAMETERS: Final = frozenset({"alt", "key", "prettyprint", "enum-encoding"})
"""Parameters of the URL that leave every field of an answer in it."""


class LlmKind:
    """The requests of one API."""

    methods = frozenset({"POST"})
    max_held_bytes = MAX_LLM_BYTES
    media_types = frozenset({"application/json"})
    codings = frozenset[str]()

    def __init__(self, api: LlmApi) -> None:
        self.api = api
        self.name = f"{LLM_KEY}.{api}"

    def begin(self, head: Head) -> Inspector | Facts | Unreadable:
        path, _, query = head.target.partition("?")
        if self.api == "gemini" and _selects_fields(query, head.headers):
            return Unreadable("llm.shape", "the answer could come without its usage")
        try:
            target = read_target(self.api, path, _tier_of(head.headers))
        except LlmRequestError as error:
            return error.unreadable
        if target is None:
            return Unreadable("llm.shape", "the path is none of a call of this API")
        return WholeBody(partial(_read_body, self.api, target, is_signed=_is_signed(head.headers)))

    def answer(self, refusal: Refusal, found: Facts | Unreadable | None) -> RefusalAnswer:
        del found
        return provider_answer(self.api, refusal)

    def recall(self, log: Mapping[str, FactValue]) -> Facts | None:
        """Return the call behind findings in the log; None where some are missing or were cut."""
        texts = {name: log.get(name, "") for name in ("llm_models", "llm_server_tools", "llm_tier")}
        counts = {name: log.get(name, 0) for name in ("llm_max_output", "llm_choices", "llm_input_estimate")}
        if not log.get("llm_models") or any(str(text).endswith("…") for text in texts.values()):
            return None
        if not all(isinstance(count, int) for count in counts.values()):
            return None
        most = log.get("llm_max_output")
        call = LlmCall(
            self.api,
            tuple(str(texts["llm_models"]).split()),
            max_output=most if isinstance(most, int) else None,
            choices=int(counts["llm_choices"]) or 1,
            server_tools=tuple(str(texts["llm_server_tools"]).split()),
            input_tokens=int(counts["llm_input_estimate"]),
            is_streamed=bool(log.get("llm_stream")),
            tier=str(texts["llm_tier"]),
            is_unmetered=bool(log.get("llm_unmetered")),
        )
        return Facts((call,), log)


def _read_body(api: LlmApi, target: RequestTarget, data: bytes, *, is_signed: bool) -> Facts | Unreadable:
    try:
        document = read_strict_json(data)
        call = read_call(api, target, document, len(data), is_signed=is_signed)
    except StrictJsonError as error:
        return Unreadable(error.code, error.detail)
    except LlmRequestError as error:
        return error.unreadable
    # The document is kept for a rule that clamps it; no rule reads it.
    return Facts((call,), call_facts(call), len(data), context=document)


def call_facts(call: LlmCall) -> dict[str, FactValue]:
    """Return the findings of a call for the log."""
    log: dict[str, FactValue] = {
        "llm_models": fact_text(" ".join(call.models)),
        "llm_input_estimate": call.input_tokens,
    }
    if call.max_output is not None:
        log["llm_max_output"] = call.max_output
    if call.choices != 1:
        log["llm_choices"] = call.choices
    if call.server_tools:
        log["llm_server_tools"] = fact_text(" ".join(call.server_tools))
    if call.tier:
        log["llm_tier"] = fact_text(call.tier)
    if call.is_streamed:
        log["llm_stream"] = True
    if call.is_unmetered:
        log["llm_unmetered"] = True
    return log


def _selects_fields(query: str, headers: Headers) -> bool:
    """Tell whether a request may choose the fields of its answer, as services of Google allow."""
    parts = query.replace(";", "&").split("&") if query else []
    names = {unquote_plus(part.partition("=")[0]).removeprefix("$").lower() for part in parts if part}
    return not names <= _GEMINI_PARAMETERS or any(fold_header(name) == _FIELD_MASK for name, _ in headers)


def _tier_of(headers: Headers) -> str:
    """Return the tier of a model call that a field names; of several the first that is none of the usual."""
    named = [value.strip(" \t").lower() for name, value in headers if fold_header(name) in _TIER_HEADERS]
    return next((each for each in named if each not in ("default", "standard")), "")


def _is_signed(headers: Headers) -> bool:
    """Tell whether the client vouches for the bytes of the body."""
    return any(
        name in _SIGNING_HEADERS or (name == "authorization" and value.startswith(_AWS_SIGNATURE))
        for name, value in headers
    )
