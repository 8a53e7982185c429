"""The Gemini API: content whole and streamed, counting of tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.tools.standins.script import SAID, Step, next_step
from tests.tools.vendor_server import VendorCall, event

HOST = "generativelanguage.googleapis.com"
MODEL = "gemini-3-flash"
_OPINION = {"complexity_reasoning": "It is one file.", "complexity_score": 1}
_USAGE = {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18}


class GeminiApi:
    """Lets in whoever brings the key in `x-goog-api-key`, and in no other place."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __call__(self, call: VendorCall) -> None:
        others = (call.header("authorization"), call.parameter("key"), call.parameter("access_token"))
        verb = call.path.rpartition(":")[2]
        if call.header("x-goog-api-key") != self._key or any(others):
            call.reply_json(
                {"error": {"code": 401, "message": "invalid key", "status": "UNAUTHENTICATED"}}, 401
            )
        elif verb == "countTokens":
            call.reply_json({"totalTokens": 9})
        elif verb in ("generateContent", "streamGenerateContent"):
            self._generate(call, is_streamed=verb == "streamGenerateContent")
        elif call.path.endswith("/models"):
            call.reply_json({"models": [{"name": f"models/{MODEL}", "displayName": MODEL}]})
        else:
            call.reply_json({"error": {"code": 404, "message": call.path, "status": "NOT_FOUND"}}, 404)

    def _generate(self, call: VendorCall, *, is_streamed: bool) -> None:
        asked = call.json()
        offered = [each for tool in asked.get("tools", ()) for each in tool.get("functionDeclarations", ())]
        parts = [part for content in asked["contents"] for part in content.get("parts", ())]
        is_answered = any("functionResponse" in part for part in parts)
        step = next_step(offered, is_answered=is_answered)
        # A client that wants JSON asks itself a question, such as which model to take.
        is_json = asked.get("generationConfig", {}).get("responseMimeType") == "application/json"
        if is_json:
            call.reply_json(_answer([{"text": json.dumps(_OPINION)}]))
        elif is_streamed:
            call.stream(_events(step))
        else:
            call.reply_json(_answer(_parts(step)))


def _parts(step: Step | None) -> list[dict[str, Any]]:
    if step is None:
        return [{"text": SAID}]
    return [
        {
            "functionCall": {"name": step.tool, "args": dict(step.arguments)},
            "thoughtSignature": "c3RhbmQtaW4=",
        }
    ]


def _answer(parts: list[dict[str, Any]], reason: str = "STOP") -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if reason:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], "usageMetadata": _USAGE, "modelVersion": MODEL}


def _events(step: Step | None) -> Iterator[bytes]:
    if step is None:
        first, _, rest = SAID.partition(" ")
        yield event(_answer([{"text": f"{first} "}], ""))
        yield event(_answer([{"text": rest}]))
    else:
        yield event(_answer(_parts(step)))
