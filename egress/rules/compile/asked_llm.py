"""Calls of language models that somebody asks about, as the body that a client would send.

    MODEL [max=N] [n=N] [tool=NAME]... [stream]

The API is that of the path.
"""

from __future__ import annotations

import re
from typing import Final

from egress.inspect.llm.usage import LlmApi
from egress.rules.compile.asked_body import json_body
from egress.rules.language.report import MeaningError

ASKED_LLM_HINT: Final = "write it as in `claude-haiku-4 max=1000`, with n=N, tool=NAME or stream behind it"
_PATHS: Final[tuple[tuple[LlmApi, str], ...]] = (
    ("anthropic", r"/messages\Z"),
    ("openai-chat", r"/chat/completions\Z"),
    ("openai-responses", r"/responses\Z"),
    ("openai-embeddings", r"/embeddings\Z"),
    ("gemini", r":(?:stream)?[gG]enerateContent\Z"),
    ("bedrock-converse", r"/converse(?:-stream)?\Z"),
    ("bedrock-invoke", r"/invoke(?:-with-response-stream)?\Z"),
)
_MAX_DIGITS: Final = 9


def asked_llm(text: str, target: str) -> bytes:
    """Return the body of such a call for this URL or target; raises MeaningError."""
    path = target.partition("?")[0]
    api = next((api for api, pattern in _PATHS if re.search(pattern, path)), None)
    if api is None:
        raise MeaningError("the path is none of a known model API", "write the body with `body:` instead")
    model, *words = text.split() or [""]
    if not model or "=" in model:
        raise MeaningError("this names no model", ASKED_LLM_HINT)
    most = choices = None
    tools: list[str] = []
    streams = False
    for word in words:
        key, _, value = word.partition("=")
        if key in ("max", "n") and value.isdecimal() and len(value) <= _MAX_DIGITS:
            most, choices = (int(value), choices) if key == "max" else (most, int(value))
        elif key == "tool" and value:
            tools.append(value)
        elif word == "stream":
            streams = True
        else:
            raise MeaningError("this is no part of a call", ASKED_LLM_HINT)
    return json_body(_document(api, model, most, choices, tools, streams=streams))


def _document(
    api: LlmApi, model: str, most: int | None, choices: int | None, tools: list[str], *, streams: bool
) -> dict[str, object]:
    """Return a body with these fields, each where its API has it."""
    kinds = [{"type": tool} for tool in tools]
    document: dict[str, object] = {}
    if api in ("anthropic", "openai-chat", "openai-responses", "openai-embeddings"):
        document["model"] = model
        document["stream"] = streams or None
        document["tools"] = kinds or None
    # Fields that several APIs share stand above, those of a single one below: these replace them.
    if api in ("anthropic", "bedrock-invoke"):
        document |= {"max_tokens": most, "messages": [], "tools": kinds or None}
    elif api == "openai-chat":
        document |= {"max_completion_tokens": most, "n": choices, "messages": []}
    elif api == "openai-responses":
        document |= {"max_output_tokens": most, "input": ""}
    elif api == "openai-embeddings":
        document |= {"input": ""}
    elif api == "gemini":
        config = _without_none({"maxOutputTokens": most, "candidateCount": choices})
        document |= {
            "contents": [],
            "generationConfig": config,
            "tools": [{tool: {}} for tool in tools] or None,
        }
    else:
        systems = [{"systemTool": {"name": tool}} for tool in tools]
        document |= {
            "messages": [],
            "inferenceConfig": _without_none({"maxTokens": most}),
            "toolConfig": {"tools": systems} if systems else None,
        }
    return _without_none(document)


def _without_none(value: dict[str, object]) -> dict[str, object]:
    return {name: each for name, each in value.items() if each is not None}
