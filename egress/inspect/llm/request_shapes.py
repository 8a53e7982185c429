"""Requests of the seven APIs, read as calls: models, output, tools of the vendor, an estimate of the input.

A field that is not known here may mean anything. Those that let a vendor fetch or run something on its own
are named as tools, so that a rule has to list them; where that cannot be told, a type that is not known to
run at the client counts as a tool of the vendor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from egress.inspect.llm.input_estimate import STORED_INPUT_TOKENS, content_size, count_numbers
from egress.inspect.llm.llm_call import LlmCall
from egress.inspect.llm.request_fields import (
    MAX_LISTED_OBJECTS,
    LlmRequestError,
    RequestFields,
    model_name,
)
from egress.inspect.llm.usage import STANDARD_SPEED, LlmApi
from egress.inspect.strict_json import JsonValue

FETCH_TOOL: Final = "url"
"""The name of contents that the vendor fetches from an address."""
MAX_SERVER_TOOLS: Final = 64
MAX_MODELS: Final = 64
"""Models that a request can reach: each is compared with those of the rules."""
_VERSION: Final = re.compile(r"_[0-9]{8}$|_[0-9]{4}_[0-9]{2}_[0-9]{2}$")
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_GEMINI_PATH: Final = re.compile(r"/models/([^/:]+):(generateContent|streamGenerateContent)\Z")
_BEDROCK_PATH: Final = re.compile(
    r"/model/([^/]+)/(converse|converse-stream|invoke|invoke-with-response-stream)\Z"
)

# Tools that the client runs itself, by the beginning of their type.
_ANTHROPIC_CLIENT_TOOLS: Final = ("bash_", "text_editor_", "computer_", "memory_")
_CHAT_CLIENT_TOOLS: Final = frozenset({"function", "custom"})
_RESPONSES_CLIENT_TOOLS: Final = frozenset(
    {"function", "custom", "local_shell", "apply_patch", "computer_use_preview", "computer"}
)
_GEMINI_CLIENT_TOOLS: Final = frozenset({"function_declarations", "computer_use"})
_CONVERSE_CLIENT_TOOLS: Final = frozenset({"toolSpec", "cachePoint"})


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """What the path of a request says; both empty for an API whose path says nothing."""

    model: str = ""
    action: str = ""
    tier: str = ""
    """The service tier, where a field of the head names it."""


def read_target(api: LlmApi, path: str, tier: str = "") -> RequestTarget | None:
    """Return what a canonical path says to an API; None for a path that is not one of its calls.

    `tier` is the one that the head names.
    """
    pattern = _PATHS.get(api)
    if pattern is None:
        return RequestTarget()
    match = pattern.search(path)
    if match is None or not match[2].startswith(_ACTIONS[api]):
        return None
    return RequestTarget(model_name(unquote(match[1])), match[2], tier)


def read_call(
    api: LlmApi, target: RequestTarget, document: JsonValue, size: int, *, is_signed: bool = False
) -> LlmCall:
    """Return the call that a body of so many bytes asks for. Raises `LlmRequestError`."""
    if not isinstance(document, dict):
        raise LlmRequestError("llm.shape", "the body is not an object")
    contents = content_size(document, size)
    call = _READERS[api](document, target)
    if len(call.models) > MAX_MODELS:
        raise LlmRequestError("llm.shape", "the request names too many models")
    tools = dict.fromkeys([*call.server_tools, *([FETCH_TOOL] if contents.fetches else [])])
    if len(tools) > MAX_SERVER_TOOLS:
        raise LlmRequestError("llm.shape", "the request has too many tools of the vendor")
    return LlmCall(
        api,
        tuple(dict.fromkeys(map(model_name, call.models))),
        max_output=call.max_output,
        choices=call.choices,
        server_tools=tuple(tools),
        input_tokens=contents.tokens + call.input_tokens,
        is_streamed=call.is_streamed,
        has_usage=call.has_usage,
        tier=call.tier,
        is_unmetered=call.is_unmetered,
        is_signed=is_signed,
    )


# Messages of Anthropic ------------------------------------------------------------------------

_ANTHROPIC_FIELDS: Final = (
    ("model",), ("max_tokens",), ("stream",), ("tools",), ("mcp_servers",), ("container",), ("fallbacks",),
    ("service_tier",), ("speed",),
)  # fmt: skip


def _anthropic(document: Mapping[str, JsonValue], target: RequestTarget) -> LlmCall:
    fields = RequestFields(document, _ANTHROPIC_FIELDS)
    models, most = [target.model or fields.text("model")], fields.count("max_tokens", 1)
    speeds = [fields.text("speed")]
    for each in fields.objects("fallbacks"):
        other = RequestFields(each, _ANTHROPIC_FIELDS)
        if other.text("model") in ("", "default"):
            raise LlmRequestError("llm.model", "a fallback names no model")
        models.append(other.text("model"))
        speeds.append(other.text("speed"))
        # The largest number of the request counts for all of its models.
        most = max(most or 0, other.count("max_tokens", 1) or 0) or None
    if isinstance(document.get("fallbacks"), str):
        raise LlmRequestError("llm.model", "a fallback names no model")
    tools = [_anthropic_tool(each) for each in fields.objects("tools")]
    tools += [name for name in ("mcp_servers", "container") if fields.get(name)]
    return LlmCall(
        "anthropic",
        tuple(models),
        max_output=most,
        server_tools=tuple(filter(None, tools)),
        is_streamed=fields.flag("stream"),
        # A faster mode has a price of its own, as a tier has.
        tier=_tier(
            next((each for each in speeds if each not in ("", STANDARD_SPEED)), "")
            or fields.text("service_tier")
        ),
    )


def _anthropic_tool(tool: Mapping[str, JsonValue]) -> str:
    kind = RequestFields(tool, (("type",),)).text("type")
    # Without a type it is one that the client describes and runs.
    is_own = kind in ("", "custom") or kind.startswith(_ANTHROPIC_CLIENT_TOOLS)
    return "" if is_own else _tool_name(kind)


# OpenAI ---------------------------------------------------------------------------------------

_CHAT_FIELDS: Final = (
    ("model",), ("models",), ("max_completion_tokens",), ("max_tokens",), ("n",), ("stream",),
    ("stream_options",),
    ("tools",), ("web_search_options",), ("plugins",), ("service_tier",), ("background",), ("input",),
    ("max_output_tokens",), ("fallbacks",), ("prompt",), ("previous_response_id",), ("conversation",),
)  # fmt: skip


def _chat(document: Mapping[str, JsonValue], _: RequestTarget) -> LlmCall:
    fields = RequestFields(document, _CHAT_FIELDS)
    tools = [_openai_tool(each, _CHAT_CLIENT_TOOLS) for each in fields.objects("tools")]
    tools += [name for name in ("web_search_options", "plugins") if fields.get(name) is not None]
    options = fields.mapping("stream_options", (("include_usage",),))
    is_streamed = fields.flag("stream")
    return LlmCall(
        "openai-chat",
        _openai_models(fields),
        max_output=_only_count(fields, "max_completion_tokens", "max_tokens"),
        choices=fields.count("n", 1) or 1,
        server_tools=tuple(filter(None, tools)),
        is_streamed=is_streamed,
        has_usage=not is_streamed or options.flag("include_usage"),
        tier=_tier(fields.text("service_tier")),
    )


def _responses(document: Mapping[str, JsonValue], _: RequestTarget) -> LlmCall:
    fields = RequestFields(document, _CHAT_FIELDS)
    tools = [_openai_tool(each, _RESPONSES_CLIENT_TOOLS) for each in fields.objects("tools")]
    is_later = fields.flag("background")
    tools += ["background"] if is_later else []
    # What is stored with the vendor may name tools of its own.
    tools += ["stored_prompt"] if fields.get("prompt") is not None else []
    # The vendor adds what it has stored of the conversation to the input.
    goes_on = any(fields.get(name) is not None for name in ("previous_response_id", "conversation"))
    return LlmCall(
        "openai-responses",
        _openai_models(fields),
        max_output=fields.count("max_output_tokens", 1),
        input_tokens=STORED_INPUT_TOKENS if goes_on else 0,
        server_tools=tuple(filter(None, tools)),
        is_streamed=fields.flag("stream"),
        tier=_tier(fields.text("service_tier")),
        is_unmetered=is_later,
    )


def _embeddings(document: Mapping[str, JsonValue], _: RequestTarget) -> LlmCall:
    fields = RequestFields(document, _CHAT_FIELDS)
    # An answer of embeddings has no tokens.
    numbers = count_numbers(fields.get("input"))
    return LlmCall("openai-embeddings", _openai_models(fields), max_output=0, input_tokens=numbers)


def _openai_models(fields: RequestFields) -> tuple[str, ...]:
    others = fields.get("models")
    if fields.get("fallbacks") is not None:
        raise LlmRequestError("llm.model", "`fallbacks` is no field of this API")
    if others is None:
        return (fields.text("model"),)
    # A gateway takes the next model of the list where the one before fails.
    if not isinstance(others, list) or not all(isinstance(each, str) for each in others):
        raise LlmRequestError("llm.shape", "`models` is not a list of names")
    named = [each for each in others if isinstance(each, str)]
    first = fields.text("model")
    return (first, *named) if first else tuple(named) or ("",)


def _openai_tool(tool: Mapping[str, JsonValue], at_client: frozenset[str]) -> str:
    kind = RequestFields(tool, (("type",),)).text("type")
    return "" if kind in at_client else _tool_name(kind)


# Gemini ---------------------------------------------------------------------------------------

_GEMINI_FIELDS: Final = (
    ("model",), ("tools",), ("generationConfig", "generation_config"), ("serviceTier", "service_tier"),
    ("cachedContent", "cached_content"),
)  # fmt: skip
_GEMINI_CONFIG: Final = (("maxOutputTokens", "max_output_tokens"), ("candidateCount", "candidate_count"))


def _gemini(document: Mapping[str, JsonValue], target: RequestTarget) -> LlmCall:
    fields = RequestFields(document, _GEMINI_FIELDS)
    config = fields.mapping("generationConfig", _GEMINI_CONFIG)
    named = fields.text("model").removeprefix("models/")
    listed = fields.objects("tools")
    if sum(map(len, listed)) > MAX_LISTED_OBJECTS:
        raise LlmRequestError("llm.shape", "`tools` is too long")
    tools = [_snake(name) for each in listed for name in each]
    tools += ["cached_content"] if fields.get("cachedContent") is not None else []
    return LlmCall(
        "gemini",
        (target.model, *([named] if named else [])),
        max_output=config.count("maxOutputTokens", 1),
        choices=config.count("candidateCount", 1) or 1,
        server_tools=tuple(_tool_name(name) for name in tools if name not in _GEMINI_CLIENT_TOOLS),
        is_streamed=target.action == "streamGenerateContent",
        tier=_tier(fields.text("serviceTier")),
    )


# Bedrock --------------------------------------------------------------------------------------

_CONVERSE_FIELDS: Final = (
    ("inferenceConfig",), ("toolConfig",), ("additionalModelRequestFields",), ("serviceTier",),
    ("promptVariables",), ("performanceConfig",),
)  # fmt: skip


def _converse(document: Mapping[str, JsonValue], target: RequestTarget) -> LlmCall:
    fields = RequestFields(document, _CONVERSE_FIELDS)
    config = fields.mapping("inferenceConfig", (("maxTokens",),))
    if ":prompt/" in target.model or fields.get("promptVariables") is not None:
        raise LlmRequestError("llm.model", "a stored prompt names the model")
    tools = _converse_tools(fields)
    if fields.get("additionalModelRequestFields"):
        # Fields in the vendor's own names, such as another maximum, or tools.
        tools.append("additional_fields")
    return LlmCall(
        "bedrock-converse",
        (target.model,),
        max_output=config.count("maxTokens", 1),
        server_tools=tuple(tools),
        is_streamed=target.action == "converse-stream",
        # A lower latency has a price of its own, as a tier has.
        tier=_tier(_latency(fields) or fields.mapping("serviceTier", (("type",),)).text("type")),
    )


def _converse_tools(fields: RequestFields) -> list[str]:
    listed = fields.mapping("toolConfig", (("tools",),)).objects("tools")
    return [_tool_name(_system_tool(each)) for each in listed if _CONVERSE_CLIENT_TOOLS.isdisjoint(each)]


def _latency(fields: RequestFields) -> str:
    latency = fields.mapping("performanceConfig", (("latency",),)).text("latency")
    return "" if latency == "standard" else latency


def _system_tool(tool: Mapping[str, JsonValue]) -> str:
    inner = tool.get("systemTool")
    name = inner.get("name") if isinstance(inner, dict) else None
    return name if isinstance(name, str) else next(iter(tool), "")


INVOKE_OUTPUT_FIELDS: Final = (
    "max_tokens", "max_completion_tokens", "max_tokens_to_sample", "max_gen_len", "maxTokens",
)  # fmt: skip
"""The names under which vendors take a maximum of tokens at the top of a body."""
_INVOKE_INNER_FIELDS: Final = (("inferenceConfig", "max_new_tokens"), ("inferenceConfig", "maxTokens"),
                               ("textGenerationConfig", "maxTokenCount"))  # fmt: skip
_INVOKE_FIELDS: Final = (
    ("tools",), ("mcp_servers",), ("container",), ("max_tokens", "maxTokens"), ("max_completion_tokens",),
    ("max_tokens_to_sample",), ("max_gen_len",), ("inferenceConfig",), ("textGenerationConfig",),
    ("toolConfig",), ("n",), ("num_generations",), ("numResults",),
)  # fmt: skip
_INVOKE_CHOICES: Final = ("n", "num_generations", "numResults")
"""The names under which vendors take a number of answers."""


def _invoke(document: Mapping[str, JsonValue], target: RequestTarget) -> LlmCall:
    fields = RequestFields(document, _INVOKE_FIELDS)
    if ":prompt/" in target.model:
        raise LlmRequestError("llm.model", "a stored prompt names the model")
    names = ("max_tokens", "max_completion_tokens", "max_tokens_to_sample", "max_gen_len")
    stated = [count for name in names if (count := fields.count(name, 1)) is not None]
    for outer, inner in _INVOKE_INNER_FIELDS:
        count = fields.mapping(outer, ((inner,),)).count(inner, 1) if fields.get(outer) is not None else None
        stated += [] if count is None else [count]
    if len(stated) > 1:
        raise LlmRequestError("llm.ambiguous", "the maximum of the output is there twice")
    tools = [*map(_anthropic_tool, fields.objects("tools")), *_converse_tools(fields)]
    tools += [name for name in ("mcp_servers", "container") if fields.get(name)]
    return LlmCall(
        "bedrock-invoke",
        (target.model,),
        max_output=stated[0] if stated else None,
        choices=max(fields.count(name, 1) or 1 for name in _INVOKE_CHOICES),
        server_tools=tuple(filter(None, tools)),
        is_streamed=target.action == "invoke-with-response-stream",
        tier=_tier(target.tier),
    )


# All of them ----------------------------------------------------------------------------------


def _only_count(fields: RequestFields, *names: str) -> int | None:
    found = [count for name in names if (count := fields.count(name, 1)) is not None]
    if len(found) > 1:
        raise LlmRequestError("llm.ambiguous", "the maximum of the output is there twice")
    return found[0] if found else None


def _tool_name(text: str) -> str:
    """Return the name of a tool without its version; one that cannot be read is no name a rule could list."""
    name = _VERSION.sub("", text)
    return name if _TOOL_NAME.fullmatch(name) else "unknown"


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _tier(text: str) -> str:
    # The vendor chooses, so a call may have any of its tiers.
    return "" if text in ("auto", "unspecified") else text[:32]


_READERS: Final[Mapping[LlmApi, Callable[[Mapping[str, JsonValue], RequestTarget], LlmCall]]] = {
    "anthropic": _anthropic,
    "openai-chat": _chat,
    "openai-responses": _responses,
    "openai-embeddings": _embeddings,
    "gemini": _gemini,
    "bedrock-converse": _converse,
    "bedrock-invoke": _invoke,
}
_PATHS: Final = {"gemini": _GEMINI_PATH, "bedrock-converse": _BEDROCK_PATH, "bedrock-invoke": _BEDROCK_PATH}
_ACTIONS: Final = {
    "gemini": ("generateContent", "streamGenerateContent"),
    "bedrock-converse": ("converse",),
    "bedrock-invoke": ("invoke",),
}
