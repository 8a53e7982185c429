"""Usage of the seven APIs, each token in one part: vectors 2 to 5 of the budgets."""

from __future__ import annotations

import pytest

from egress.inspect.llm.usage import LLM_APIS, Usage, merge_usage, read_usage
from egress.inspect.strict_json import JsonFloat, JsonValue


def test_vector_2_a_later_state_keeps_the_numbers_that_it_does_not_name() -> None:
    known: dict[str, JsonValue] = {}
    merge_usage(known, {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 1})
    merge_usage(known, {"output_tokens": 5, "input_tokens": None})
    merge_usage(known, {"output_tokens": 40, "server_tool_use": {"web_search_requests": 1}})
    merge_usage(known, {"server_tool_use": {"web_fetch_requests": 2}})
    usage = read_usage("anthropic", known)
    assert (usage.input, usage.cache_read, usage.output) == (10, 90, 40)
    assert usage.tool_calls == (("web_search", 1), ("web_fetch", 2))


def test_vector_3_cached_tokens_of_a_chat_are_within_its_prompt() -> None:
    usage = read_usage(
        "openai-chat",
        {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}},
    )
    assert (usage.input, usage.cache_read, usage.output) == (40, 60, 7)


def test_vector_4_reasoning_is_within_the_output() -> None:
    usage = read_usage(
        "openai-chat", {"completion_tokens": 50, "completion_tokens_details": {"reasoning_tokens": 30}}
    )
    assert (usage.output, usage.reasoning, usage.tokens) == (50, 30, 50)


def test_vector_5_thoughts_of_gemini_stand_beside_the_candidates() -> None:
    usage = read_usage(
        "gemini",
        {
            "promptTokenCount": 100,
            "cachedContentTokenCount": 40,
            "toolUsePromptTokenCount": 5,
            "candidatesTokenCount": 20,
            "thoughtsTokenCount": 30,
        },
    )
    assert (usage.input, usage.cache_read, usage.output) == (65, 40, 50)


def test_writes_to_the_cache_are_told_apart_by_their_lifetime() -> None:
    usage = read_usage(
        "anthropic",
        {"cache_creation_input_tokens": 100, "cache_creation": {"ephemeral_1h_input_tokens": 30}},
    )
    assert (usage.cache_write_5m, usage.cache_write_1h) == (70, 30)
    converse = read_usage(
        "bedrock-converse",
        {
            "inputTokens": 3,
            "cacheWriteInputTokens": 100,
            "cacheDetails": [{"ttl": "1h", "inputTokens": 30}, {"ttl": "5m", "inputTokens": 70}],
        },
    )
    assert (converse.input, converse.cache_write_5m, converse.cache_write_1h) == (3, 70, 30)


@pytest.mark.parametrize(
    "raw",
    [
        {"inputTokenCount": 7, "outputTokenCount": 9},
        {"input_tokens": 7, "output_tokens": 9},
        {"prompt_tokens": 7, "completion_tokens": 9},
        {"inputTokens": 7, "outputTokens": 9},
        {"prompt_token_count": 7, "generation_token_count": 9},
    ],
)
def test_an_invoked_model_counts_in_the_names_of_its_vendor(raw: dict[str, JsonValue]) -> None:
    usage = read_usage("bedrock-invoke", raw)
    assert (usage.input, usage.output) == (7, 9)


@pytest.mark.parametrize("odd", [-5, "many", True, JsonFloat("1.5"), [1], {"a": 1}])
def test_a_number_that_is_none_counts_as_nothing_and_is_flagged(odd: JsonValue) -> None:
    usage = read_usage("anthropic", {"input_tokens": odd, "output_tokens": 3})
    assert (usage.input, usage.output, usage.is_odd) == (0, 3, True)


def test_more_cached_tokens_than_there_are_never_give_money_back() -> None:
    usage = read_usage("openai-chat", {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 60}})
    assert (usage.input, usage.is_odd) == (0, True)


@pytest.mark.parametrize("api", LLM_APIS)
def test_an_empty_usage_is_nothing(api: str) -> None:
    assert read_usage(next(each for each in LLM_APIS if each == api), {}) == Usage()


def test_the_tier_of_the_usage_comes_before_that_of_the_answer() -> None:
    assert read_usage("anthropic", {"service_tier": "priority"}, tier="standard").tier == "priority"
    assert read_usage("openai-chat", {"prompt_tokens": 1}, tier="flex", model="m").tier == "flex"


def test_steps_whose_tokens_are_not_in_the_totals_count() -> None:
    steps: list[JsonValue] = [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3500},
        {"type": "message", "input_tokens": 23_000, "output_tokens": 1000},
    ]
    raw: dict[str, JsonValue] = {"input_tokens": 23_000, "output_tokens": 1000, "iterations": steps}
    usage = read_usage("anthropic", raw)
    assert (usage.input, usage.output) == (203_000, 4500)
    usage = read_usage("anthropic", {**raw, "iterations": [None, {}]})
    assert (usage.input, usage.output) == (23_000, 1000)


def test_a_faster_mode_is_the_tier_of_an_answer() -> None:
    raw: dict[str, JsonValue] = {"input_tokens": 1, "service_tier": "standard"}
    assert read_usage("anthropic", {**raw, "speed": "fast"}).tier == "fast"
    assert read_usage("anthropic", {**raw, "speed": "standard"}).tier == "standard"
