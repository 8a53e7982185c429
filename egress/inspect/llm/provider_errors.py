"""Denials in the words of each vendor, so that its clients show the reason.

The status tells if trying again can help: 429 with a wait of up to a minute, where the client's own library
waits; 403 otherwise, or 400 for a request that is none, which it takes for an answer.
"""

from __future__ import annotations

import json
from typing import Final

from egress.inspect.inspector import Refusal, RefusalAnswer
from egress.inspect.llm.usage import LlmApi

MAX_RETRY_SECONDS: Final = 60
"""The longest wait that is told to clients: some sleep for whatever they are told."""
_WAITING_STATUSES: Final = frozenset({403, 429})
_BEDROCK_ERRORS: Final = {
    403: "AccessDeniedException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}
_GEMINI_STATES: Final = {403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
_ANTHROPIC_TYPES: Final = {
    403: "permission_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "api_error",
}


def provider_answer(api: LlmApi, refusal: Refusal) -> RefusalAnswer:
    """Write a denial as this API writes its errors."""
    waits = 0 < refusal.retry_after <= MAX_RETRY_SECONDS
    status = 429 if waits and refusal.status in _WAITING_STATUSES else refusal.status
    about = refusal.item and f"({refusal.item})"
    later = (
        f"It reopens in about {-(-refusal.retry_after // 60)} minutes."
        if refusal.retry_after and not waits
        else ""
    )
    message = " ".join(filter(None, (f"Egress: {refusal.message}", about, later, refusal.hint)))
    value = _error(api, status, refusal.code, message)
    headers = (
        (("x-amzn-errortype", _BEDROCK_ERRORS.get(status, "ValidationException")),)
        if api.startswith("bedrock")
        else ()
    )
    return RefusalAnswer(status, "application/json", json.dumps(value).encode() + b"\n", headers=headers)


def _error(api: LlmApi, status: int, code: str, message: str) -> dict[str, object]:
    if api == "anthropic":
        return {
            "type": "error",
            "error": {"type": _ANTHROPIC_TYPES.get(status, "invalid_request_error"), "message": message},
        }
    if api == "gemini":
        return {
            "error": {
                "code": status,
                "message": message,
                "status": _GEMINI_STATES.get(status, "INVALID_ARGUMENT"),
            }
        }
    if api.startswith("bedrock"):
        return {"message": message}
    return {"error": {"message": message, "type": "egress_error", "param": None, "code": code}}
