"""The Messages API: an assistant that says a line, or first asks for a file to be written.

What it wants written comes from the tools that the client offers, so each agent is asked in its own words.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.tools.standins.script import SAID, Step, next_step
from tests.tools.vendor_server import VendorCall, event

HOST = "api.anthropic.com"
MODEL = "claude-sonnet-5"


class AnthropicApi:
    """Lets in whoever brings the key in `x-api-key`, and nothing in any other place."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._numbers = itertools.count(1)

    def __call__(self, call: VendorCall) -> None:
        if call.header("x-api-key") != self._key or call.header("authorization"):
            error = {"type": "authentication_error", "message": "invalid x-api-key"}
            call.reply_json({"type": "error", "error": error}, 401)
        elif (call.method, call.path) == ("POST", "/v1/messages"):
            self._messages(call)
        elif call.path == "/v1/messages/count_tokens":
            call.reply_json({"input_tokens": 12})
        elif call.path.startswith("/v1/models"):
            call.reply_json({"data": [], "has_more": False})
        else:
            call.reply_json(
                {"type": "error", "error": {"type": "not_found_error", "message": call.path}}, 404
            )

    def _messages(self, call: VendorCall) -> None:
        asked = call.json()
        block = _block(
            next_step(asked.get("tools", ()), is_answered=_is_answered(asked)), next(self._numbers)
        )
        message: dict[str, Any] = {
            "id": f"msg_{next(self._numbers)}",
            "type": "message",
            "role": "assistant",
            "model": asked.get("model", MODEL),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 12, "output_tokens": 1},
        }
        reason = "tool_use" if block["type"] == "tool_use" else "end_turn"
        if asked.get("stream"):
            call.stream(_events(message, block, reason))
        else:
            call.reply_json({**message, "content": [block], "stop_reason": reason})


def _is_answered(asked: dict[str, Any]) -> bool:
    """Whether a tool has been used already."""
    contents = (each["content"] for each in asked["messages"] if isinstance(each["content"], list))
    return any(part.get("type") == "tool_result" for part in itertools.chain(*contents))


def _block(step: Step | None, number: int) -> dict[str, Any]:
    if step is None:
        return {"type": "text", "text": SAID}
    return {"type": "tool_use", "id": f"toolu_{number}", "name": step.tool, "input": step.arguments}


def _events(message: dict[str, Any], block: dict[str, Any], reason: str) -> Iterator[bytes]:
    import json

    def one(kind: str, **values: object) -> bytes:
        return event({"type": kind, **values}, kind)

    yield one("message_start", message=message)
    if block["type"] == "text":
        yield one("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for word in block["text"].split(" "):
            yield one("content_block_delta", index=0, delta={"type": "text_delta", "text": f"{word} "})
    else:
        yield one("content_block_start", index=0, content_block={**block, "input": {}})
        given = json.dumps(block["input"])
        for part in (given[: len(given) // 2], given[len(given) // 2 :]):
            yield one(
                "content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": part}
            )
    yield one("content_block_stop", index=0)
    yield one(
        "message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": 9}
    )
    yield one("message_stop")
