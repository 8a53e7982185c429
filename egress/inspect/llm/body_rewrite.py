"""A model request written anew, with other bounds: the one case in which a body is not sent as it came.

Rules clamp what a call may cost, and budgets need the usage of a stream. Then the whole body is written from
what was read of it, so that no other reading of its bytes is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from egress.inspect.llm.llm_call import LlmCall
from egress.inspect.strict_json import JsonValue, encode_json
from egress.types import value_class

_CHAT_NAMES: Final = ("max_tokens", "max_completion_tokens")
_GEMINI_CONFIGS: Final = ("generation_config", "generationConfig")
_INVOKE_NAMES: Final = (
    "max_tokens", "maxTokens", "max_completion_tokens", "max_tokens_to_sample", "max_gen_len",
)  # fmt: skip
_INVOKE_INNER: Final = {
    "inferenceConfig": ("max_new_tokens", "maxTokens"),
    "textGenerationConfig": ("maxTokenCount",),
}


@value_class
class BodyChange:
    """The bounds that a body gets; None leaves a bound as it is."""

    max_output: int | None = None
    choices: int | None = None
    adds_usage: bool = False

    @property
    def is_needed(self) -> bool:
        return self != BodyChange()


def rewritten_body(call: LlmCall, document: Mapping[str, JsonValue], change: BodyChange) -> bytes | None:
    """Return the body of a call with these bounds; None where its API has no place for them."""
    made = dict(document)
    if change.max_output is not None and not _write_output(call, made, change.max_output):
        return None
    if change.choices is not None:
        if call.api == "openai-chat":
            made["n"] = change.choices
        elif call.api == "gemini":
            _write_inner(made, _GEMINI_CONFIGS, ("candidate_count", "candidateCount"), change.choices)
        else:
            return None
    if change.adds_usage:
        options = made.get("stream_options")
        made["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
    return encode_json(made)


def _write_output(call: LlmCall, made: dict[str, JsonValue], most: int) -> bool:
    if call.api == "anthropic":
        made["max_tokens"] = most
        if isinstance(fallbacks := made.get("fallbacks"), list):
            made["fallbacks"] = [_lowered(each, most) for each in fallbacks]
    elif call.api == "openai-chat":
        made[_stated(made, _CHAT_NAMES) or "max_completion_tokens"] = most
    elif call.api == "openai-responses":
        made["max_output_tokens"] = most
    elif call.api == "gemini":
        _write_inner(made, _GEMINI_CONFIGS, ("max_output_tokens", "maxOutputTokens"), most)
    elif call.api == "bedrock-converse":
        _write_inner(made, ("inferenceConfig",), ("maxTokens",), most)
    elif call.api == "bedrock-invoke":
        return _write_vendor_output(made, most)
    return True


def _write_vendor_output(made: dict[str, JsonValue], most: int) -> bool:
    for outer, names in _INVOKE_INNER.items():
        inner = made.get(outer)
        found = _stated(inner, names) if isinstance(inner, dict) else None
        if found is not None:
            _write_inner(made, (outer,), (found,), most)
            return True
    name = _stated(made, _INVOKE_NAMES)
    # Each vendor has a name of its own; that of Anthropic's is known by the version that a body has to state.
    if name is None and "anthropic_version" in made:
        name = "max_tokens"
    if name is not None:
        made[name] = most
    return name is not None


def _stated(value: Mapping[str, JsonValue], names: Sequence[str]) -> str | None:
    """Return the name under which a number stands; null under another one is as good as missing."""
    return next((name for name in names if value.get(name) is not None), None)


def _write_inner(
    made: dict[str, JsonValue], outer: tuple[str, ...], inner: tuple[str, ...], value: int
) -> None:
    """Write a number into an object, each in the spelling that it has; the last one where it is missing."""
    name = next((each for each in outer if isinstance(made.get(each), dict)), outer[-1])
    known = made.get(name)
    found = dict(known) if isinstance(known, dict) else {}
    found[next((each for each in inner if each in found), inner[-1])] = value
    made[name] = found


def _lowered(fallback: JsonValue, most: int) -> JsonValue:
    stated = fallback.get("max_tokens") if isinstance(fallback, dict) else None
    if isinstance(fallback, dict) and isinstance(stated, int) and stated > most:
        return {**fallback, "max_tokens": most}
    return fallback
