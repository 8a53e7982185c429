"""Calls of models by the vendors' own libraries, as their users make them; the outcome is printed as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

API, BASE, MODEL, MOST = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
ASKED: list[dict[str, str]] = [{"role": "user", "content": "Hello"}]


def anthropic_stream() -> dict[str, Any]:
    from anthropic import Anthropic  # type: ignore[import-not-found]  # fetched

    client = Anthropic(api_key="x", base_url=BASE)
    with client.messages.stream(model=MODEL, max_tokens=MOST, messages=ASKED) as stream:
        text = "".join(stream.text_stream)
        usage = stream.get_final_message().usage
    return {"text": text, "output": usage.output_tokens, "cached": usage.cache_read_input_tokens}


def anthropic_whole() -> dict[str, Any]:
    from anthropic import Anthropic

    found = Anthropic(api_key="x", base_url=BASE).messages.create(
        model=MODEL, max_tokens=MOST, messages=ASKED
    )
    return {"text": found.content[0].text, "output": found.usage.output_tokens}


def chat_stream() -> dict[str, Any]:
    from openai import OpenAI  # type: ignore[import-not-found]  # fetched

    client = OpenAI(api_key="x", base_url=f"{BASE}/v1")
    chunks = list(client.chat.completions.create(model=MODEL, max_tokens=MOST, messages=ASKED, stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    return {"text": text, "usages": sum(chunk.usage is not None for chunk in chunks)}


def responses_stream() -> dict[str, Any]:
    from openai import OpenAI

    client = OpenAI(api_key="x", base_url=f"{BASE}/v1")
    events = client.responses.create(model=MODEL, max_output_tokens=MOST, input="Hello", stream=True)
    return {"types": [event.type for event in events]}


def gemini_stream() -> dict[str, Any]:
    from google import genai  # type: ignore[attr-defined]  # a part of it is installed, for other packages

    client = genai.Client(api_key="x", http_options={"base_url": BASE})
    config = {"max_output_tokens": MOST}
    chunks = list(client.models.generate_content_stream(model=MODEL, contents="Hello", config=config))
    return {
        "text": "".join(chunk.text or "" for chunk in chunks),
        "output": chunks[-1].usage_metadata.thoughts_token_count,
    }


def converse_stream() -> dict[str, Any]:
    import botocore.session  # type: ignore[import-not-found]  # fetched

    session = botocore.session.get_session()
    session.set_credentials("x", "y")
    client = session.create_client("bedrock-runtime", region_name="us-east-1", endpoint_url=BASE)
    asked = [{"role": "user", "content": [{"text": "Hello"}]}]
    found = client.converse_stream(modelId=MODEL, messages=asked, inferenceConfig={"maxTokens": MOST})
    events = list(found["stream"])
    return {"usage": next(event["metadata"]["usage"] for event in events if "metadata" in event)}


CALLS: dict[str, Callable[[], dict[str, Any]]] = {
    "anthropic": anthropic_stream,
    "anthropic-whole": anthropic_whole,
    "openai-chat": chat_stream,
    "openai-responses": responses_stream,
    "gemini": gemini_stream,
    "bedrock-converse": converse_stream,
}

try:
    outcome = CALLS[API]()
except Exception as error:  # noqa: BLE001 - every library has a tree of its own
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    outcome = {"error": type(error).__name__, "status": status, "message": str(error)}
print(json.dumps(outcome))
