"""Answers as the vendors send them."""

from __future__ import annotations

import base64
import json

from egress.inspect.llm.event_stream import event_message


def sse(*events: tuple[str, object]) -> bytes:
    """Server-sent events with their names; a text is sent as it is."""
    return b"".join(
        (f"event: {name}\n" if name else "").encode()
        + b"data: "
        + (value.encode() if isinstance(value, str) else json.dumps(value).encode())
        + b"\n\n"
        for name, value in events
    )


ANTHROPIC = sse(
    (
        "message_start",
        {
            "type": "message_start",
            "message": {
                "model": "claude-x-20260101",
                "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 1},
            },
        },
    ),
    ("ping", {"type": "ping"}),
    (
        "content_block_delta",
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hello"}},
    ),
    ("message_delta", {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 5}}),
    (
        "message_delta",
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 40}},
    ),
    ("message_stop", {"type": "message_stop"}),
)

CHAT_CHUNKS = sse(
    ("", {"model": "gpt-x", "choices": [{"delta": {"content": "Hi"}}], "usage": None}),
    ("", {"model": "gpt-x", "choices": [{"delta": {}, "finish_reason": "stop"}], "usage": None}),
)
CHAT_USAGE = sse(
    (
        "",
        {
            "model": "gpt-x",
            "choices": [],
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": 7,
                "prompt_tokens_details": {"cached_tokens": 60},
            },
        },
    )
)
CHAT_DONE = sse(("", "[DONE]"))

RESPONSES = sse(
    ("response.created", {"type": "response.created", "response": {"model": "gpt-x", "usage": None}}),
    ("response.output_text.delta", {"type": "response.output_text.delta", "delta": "Hello"}),
    (
        "response.incomplete",
        {
            "type": "response.incomplete",
            "response": {
                "model": "gpt-x",
                "service_tier": "default",
                "usage": {"input_tokens": 12, "output_tokens": 30},
            },
        },
    ),
)


def _gemini(candidates: int, thoughts: int) -> dict[str, object]:
    counts = {"promptTokenCount": 50, "candidatesTokenCount": candidates, "thoughtsTokenCount": thoughts}
    return {
        "candidates": [{"content": {"parts": [{"text": "x"}]}}],
        "modelVersion": "gemini-x",
        "usageMetadata": counts,
    }


GEMINI_CHUNKS = [_gemini(5, 30), _gemini(10, 30), _gemini(15, 30), _gemini(20, 30)]
GEMINI_SSE = sse(*(("", chunk) for chunk in GEMINI_CHUNKS))
GEMINI_ARRAY = json.dumps(GEMINI_CHUNKS, indent=1).encode()

CONVERSE = (
    event_message("messageStart", b'{"role":"assistant"}')
    + event_message(
        "contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"text":"Hello"},"p":"abcdefghijkl"}'
    )
    + event_message("metadata", b'{"usage":{"inputTokens":11,"outputTokens":22,"cacheReadInputTokens":3}}')
)


def invoked(*values: object) -> bytes:
    """Write chunks as a model of Bedrock that is invoked streams them."""
    coded = [base64.b64encode(json.dumps(value).encode()).decode() for value in values]
    return b"".join(event_message("chunk", json.dumps({"bytes": each}).encode()) for each in coded)


INVOKE = invoked(
    {
        "type": "message_start",
        "message": {"model": "claude-x", "usage": {"input_tokens": 8, "output_tokens": 1}},
    },
    {"type": "content_block_delta", "delta": {"text": "Hello"}},
    {"type": "message_delta", "usage": {"output_tokens": 9}},
    {
        "type": "message_stop",
        "amazon-bedrock-invocationMetrics": {"inputTokenCount": 8, "outputTokenCount": 9},
    },
)
