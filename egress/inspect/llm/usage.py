"""Usage of a call as its answer states it, brought into one form for all APIs.

Each API counts in its own way: cached tokens within the input or beside it, thoughts within the output or
not. Here every token is in one part only, so that a price for each part makes the cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from egress.inspect.strict_json import JsonValue
from egress.types import value_class

LlmApi = Literal[
    "anthropic",
    "openai-chat",
    "openai-responses",
    "openai-embeddings",
    "gemini",
    "bedrock-converse",
    "bedrock-invoke",
]
LLM_APIS: Final[tuple[LlmApi, ...]] = (
    "anthropic",
    "openai-chat",
    "openai-responses",
    "openai-embeddings",
    "gemini",
    "bedrock-converse",
    "bedrock-invoke",
)
MAX_COUNTED_TOKENS: Final = 10**12
"""Tokens of a part of an answer; a larger number is taken for this one."""
MAX_TIER_CHARS: Final = 32
STANDARD_SPEED: Final = "standard"


@value_class
class Usage:
    """Tokens of a call, each in one part."""

    input: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    output: int = 0
    reasoning: int = 0
    """Tokens of the output that were thoughts; they are in `output` too."""
    tool_calls: tuple[tuple[str, int], ...] = ()
    """How often each tool of the vendor was used."""
    tier: str = ""
    model: str = ""
    """The model that answered."""
    is_odd: bool = False
    """A number was negative, or no number; it counts as 0."""

    @property
    def input_total(self) -> int:
        return self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h

    @property
    def tokens(self) -> int:
        return self.input_total + self.output


class _Counts:
    """Reads numbers of a usage, and notes whether one of them is odd."""

    def __init__(self, raw: Mapping[str, JsonValue]) -> None:
        self.raw = raw
        self.is_odd = False

    def get(self, *path: str) -> int:
        """Return the number at a path of names; 0 where it is missing or no count."""
        value: JsonValue = dict(self.raw)
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            return 0
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            self.is_odd = True
            return 0
        return min(value, MAX_COUNTED_TOKENS)

    def rest(self, whole: int, *parts: int) -> int:
        """Return a number without the parts that are within it."""
        left = whole - sum(parts)
        if left < 0:
            self.is_odd = True
        return max(0, left)


def merge_usage(known: dict[str, JsonValue], more: Mapping[str, JsonValue]) -> None:
    """Take over a later state of a usage: its numbers are totals, and a missing one stays as it was."""
    for name, value in more.items():
        before = known.get(name)
        if isinstance(value, dict):
            inner = dict(before) if isinstance(before, dict) else {}
            merge_usage(inner, value)
            known[name] = inner
        elif value is not None:
            known[name] = value


def read_usage(api: LlmApi, raw: Mapping[str, JsonValue], *, tier: str = "", model: str = "") -> Usage:
    """Return the usage that an answer of this API states."""
    counts = _Counts(raw)
    found = _READERS[api](counts)
    # A faster mode has a price of its own, as a tier has.
    speed = raw.get("speed") if api == "anthropic" else None
    stated = raw.get("service_tier") if speed in (None, STANDARD_SPEED) else speed
    named = stated if isinstance(stated, str) else tier
    return Usage(
        *found[:6],
        tool_calls=found[6],
        tier=named[:MAX_TIER_CHARS],
        model=model,
        is_odd=counts.is_odd,
    )


_Parts = tuple[int, int, int, int, int, int, tuple[tuple[str, int], ...]]


def _anthropic(counts: _Counts) -> _Parts:
    """Read the totals of an answer, and of all steps that it took where they were more.

    A step that shortens the conversation is charged, and its tokens are not in the totals.
    """
    whole = _anthropic_message(counts)
    steps = counts.raw.get("iterations")
    if not isinstance(steps, list):
        return whole
    parts = [_anthropic_message(_Counts(step)) for step in steps if isinstance(step, dict)]
    return (
        max(whole[0], sum(part[0] for part in parts)),
        max(whole[1], sum(part[1] for part in parts)),
        max(whole[2], sum(part[2] for part in parts)),
        max(whole[3], sum(part[3] for part in parts)),
        max(whole[4], sum(part[4] for part in parts)),
        *whole[5:],
    )


def _anthropic_message(counts: _Counts) -> _Parts:
    written = counts.get("cache_creation_input_tokens")
    hour = counts.get("cache_creation", "ephemeral_1h_input_tokens")
    minutes = counts.get("cache_creation", "ephemeral_5m_input_tokens")
    # A write whose lifetime is not stated is one of five minutes, the default.
    written = max(written, hour + minutes)
    tools = (("web_search", "web_search_requests"), ("web_fetch", "web_fetch_requests"))
    calls = tuple((name, count) for name, key in tools if (count := counts.get("server_tool_use", key)))
    return (
        counts.get("input_tokens"),
        counts.get("cache_read_input_tokens"),
        written - hour,
        hour,
        counts.get("output_tokens"),
        0,
        calls,
    )


def _openai(counts: _Counts, asked: str, answered: str) -> _Parts:
    """Both APIs of OpenAI have the same counts; the names of the two sides differ."""
    cached = counts.get(f"{asked}_tokens_details", "cached_tokens")
    written = counts.get(f"{asked}_tokens_details", "cache_write_tokens")
    return (
        counts.rest(counts.get(f"{asked}_tokens"), cached, written),
        cached,
        written,
        0,
        counts.get(f"{answered}_tokens"),
        counts.get(f"{answered}_tokens_details", "reasoning_tokens"),
        (),
    )


def _chat(counts: _Counts) -> _Parts:
    return _openai(counts, "prompt", "completion")


def _responses(counts: _Counts) -> _Parts:
    return _openai(counts, "input", "output")


def _gemini(counts: _Counts) -> _Parts:
    cached = counts.get("cachedContentTokenCount")
    thoughts = counts.get("thoughtsTokenCount")
    prompt = counts.rest(counts.get("promptTokenCount"), cached)
    return (
        prompt + counts.get("toolUsePromptTokenCount"),
        cached,
        0,
        0,
        counts.get("candidatesTokenCount") + thoughts,
        thoughts,
        (),
    )


def _converse(counts: _Counts) -> _Parts:
    written = counts.get("cacheWriteInputTokens")
    hour = 0
    details = counts.raw.get("cacheDetails")
    if isinstance(details, list):
        hours = [_Counts(each) for each in details if isinstance(each, dict) and each.get("ttl") == "1h"]
        hour = min(written, sum(each.get("inputTokens") for each in hours))
    return (
        counts.get("inputTokens"),
        counts.get("cacheReadInputTokens"),
        written - hour,
        hour,
        counts.get("outputTokens"),
        0,
        (),
    )


_INVOKE_INPUT: Final = ("inputTokenCount", "prompt_token_count", "inputTextTokenCount")
_INVOKE_OUTPUT: Final = ("outputTokenCount", "generation_token_count")


def _invoke(counts: _Counts) -> _Parts:
    """Read a usage of Bedrock itself, or that of a vendor's body in the vendor's own names."""
    own = max(counts.get(name) for name in _INVOKE_INPUT), max(counts.get(name) for name in _INVOKE_OUTPUT)
    # A body is of one vendor only, and the others read nothing in it.
    vendors = [_anthropic(counts), _chat(counts), _converse(counts)]
    vendor = max(vendors, key=lambda parts: sum(parts[:5]))
    if sum(vendor[:5]) >= sum(own):
        return vendor
    return (own[0], 0, 0, 0, own[1], 0, ())


_READERS: Final = {
    "anthropic": _anthropic,
    "openai-chat": _chat,
    "openai-responses": _responses,
    "openai-embeddings": _chat,
    "gemini": _gemini,
    "bedrock-converse": _converse,
    "bedrock-invoke": _invoke,
}
