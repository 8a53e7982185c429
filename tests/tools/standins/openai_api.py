"""The API of OpenAI: Responses and Chat Completions, whole and streamed, models and embeddings."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from tests.tools.standins.script import CODE, SAID, Step, next_step
from tests.tools.vendor_server import VendorCall, event

HOST = "api.openai.com"
MODEL = "gpt-6"
CREATED = 1_800_000_000


class OpenAiApi:
    """Lets in whoever brings the key as a bearer token, once."""

    def __init__(self, key: str, base: str = "/v1") -> None:
        self._key = key
        self._base = base
        self._numbers = itertools.count(1)

    def __call__(self, call: VendorCall) -> None:
        path = call.path.removeprefix(self._base)
        if call.header("authorization") != f"Bearer {self._key}" or call.header("x-api-key"):
            call.reply_json({"error": {"message": "invalid key", "code": "invalid_api_key"}}, 401)
        elif (call.method, path) == ("POST", "/responses"):
            self._respond(call)
        elif (call.method, path) == ("POST", "/chat/completions"):
            self._complete(call)
        elif path == "/embeddings":
            vector = {"object": "embedding", "index": 0, "embedding": [0.5, -0.5]}
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            call.reply_json({"object": "list", "data": [vector], "model": MODEL, "usage": usage})
        elif path == "/models":
            model = {"id": MODEL, "object": "model", "created": CREATED, "owned_by": "stand-in"}
            call.reply_json({"object": "list", "data": [model]})
        else:
            call.reply_json({"error": {"message": f"no {call.path}"}}, 404)

    # Responses

    def _respond(self, call: VendorCall) -> None:
        asked = call.json()
        given = asked["input"] if isinstance(asked["input"], list) else []
        is_answered = any(str(each.get("type", "")).endswith("_call_output") for each in given)
        item = self._item(next_step(_offered(asked, given), is_answered=is_answered))
        usage = {
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 9,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 18,
        }
        response = {
            "id": f"resp_{next(self._numbers)}",
            "object": "response",
            "created_at": CREATED,
            "model": asked.get("model", MODEL),
            "status": "in_progress",
            "output": [],
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
        }
        done = {**response, "status": "completed", "output": [item], "usage": usage}
        if asked.get("stream"):
            call.stream(_response_events(response, item, done))
        else:
            call.reply_json(done)

    def _item(self, step: Step | None) -> dict[str, Any]:
        number = next(self._numbers)
        if step is None:
            text = {"type": "output_text", "text": SAID, "annotations": []}
            return {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"} | {
                "content": [text]
            }
        call = {"id": f"fc_{number}", "call_id": f"call_{number}", "name": step.tool, "status": "completed"}
        if CODE in step.arguments:
            return {**call, "type": "custom_tool_call", "input": step.arguments[CODE]}
        return {**call, "type": "function_call", "arguments": json.dumps(step.arguments)}

    # Chat Completions

    def _complete(self, call: VendorCall) -> None:
        asked = call.json()
        is_answered = any(each["role"] == "tool" for each in asked["messages"])
        offered = [each["function"] for each in asked.get("tools", ()) if "function" in each]
        step = next_step(offered, is_answered=is_answered)
        message: dict[str, Any] = {"role": "assistant", "content": SAID}
        if step is not None:
            function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
            used = {"id": f"call_{next(self._numbers)}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [used]}
        whole = {
            "id": f"chatcmpl-{next(self._numbers)}",
            "created": CREATED,
            "model": asked.get("model", MODEL),
        }
        reason = "stop" if step is None else "tool_calls"
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        if asked.get("stream"):
            call.stream(_chunks({**whole, "object": "chat.completion.chunk"}, message, reason, usage))
        else:
            choice = {"index": 0, "message": message, "finish_reason": reason}
            call.reply_json({**whole, "object": "chat.completion", "choices": [choice], "usage": usage})


def _offered(asked: dict[str, Any], given: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The tools of a request; newer clients give them as items of the input, in groups."""
    found = [*asked.get("tools", ()), *itertools.chain(*(each.get("tools", ()) for each in given))]
    for tool in found:
        yield from tool["tools"] if tool.get("type") == "namespace" else (tool,)


def _response_events(response: dict[str, Any], item: dict[str, Any], done: dict[str, Any]) -> Iterator[bytes]:
    numbers = itertools.count()

    def one(kind: str, **values: object) -> bytes:
        return event({"type": kind, "sequence_number": next(numbers), **values}, kind)

    yield one("response.created", response=response)
    yield one("response.output_item.added", output_index=0, item={**item, "status": "in_progress"})
    place = {"item_id": item["id"], "output_index": 0}
    if item["type"] == "message":
        part = {"type": "output_text", "text": "", "annotations": []}
        yield one("response.content_part.added", **place, content_index=0, part=part)
        for word in SAID.split(" "):
            yield one("response.output_text.delta", **place, content_index=0, delta=f"{word} ")
        yield one("response.output_text.done", **place, content_index=0, text=SAID)
        yield one("response.content_part.done", **place, content_index=0, part={**part, "text": SAID})
    elif item["type"] == "function_call":
        yield one("response.function_call_arguments.delta", **place, delta=item["arguments"])
        yield one("response.function_call_arguments.done", **place, arguments=item["arguments"])
    yield one("response.output_item.done", output_index=0, item=item)
    yield one("response.completed", response=done)


def _chunks(
    whole: dict[str, Any], message: dict[str, Any], reason: str, usage: dict[str, int]
) -> Iterator[bytes]:
    def one(delta: dict[str, Any], reason: str | None = None, **more: object) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return event({**whole, "choices": [choice], **more})

    yield one({"role": "assistant", "content": ""})
    for word in SAID.split(" ") if message["content"] else ():
        yield one({"content": f"{word} "})
    for index, used in enumerate(message.get("tool_calls", ())):
        yield one({"tool_calls": [{"index": index, **used}]})
    yield one({}, reason, usage=usage)
    yield b"data: [DONE]\n\n"
