"""The meter: usage of every kind of answer, whatever pieces it comes in."""

from __future__ import annotations

import json

import pytest

from egress.inspect.inspector import AnswerError
from egress.inspect.llm.answer_meter import AnswerMeter, MeteredAnswer
from egress.inspect.llm.sse import MAX_SSE_EVENT_BYTES
from egress.inspect.llm.usage import LlmApi, Usage
from tests.unit.inspect.llm.answers import (
    ANTHROPIC,
    CHAT_CHUNKS,
    CHAT_DONE,
    CHAT_USAGE,
    CONVERSE,
    GEMINI_ARRAY,
    GEMINI_SSE,
    INVOKE,
    RESPONSES,
    sse,
)

SSE = (("content-type", "text/event-stream; charset=utf-8"),)
EVENTS = (("content-type", "application/vnd.amazon.eventstream"),)
JSON = (("content-type", "application/json"),)


def metered(
    api: LlmApi,
    headers: tuple[tuple[str, str], ...],
    *pieces: bytes,
    drops_usage: bool = False,
    ends: bool = True,
) -> tuple[MeteredAnswer, bytes]:
    meter = AnswerMeter(api, drops_usage=drops_usage)
    assert meter.begin(200, headers, has_body=True)
    passed = [data for piece in pieces for data in meter.feed(piece)]
    passed += meter.end() if ends else []
    return meter.found, b"".join(passed)


def usage_of(api: LlmApi, headers: tuple[tuple[str, str], ...], body: bytes) -> Usage:
    """Meter an answer whole and in single bytes; both must agree, and pass every byte on."""
    whole, passed = metered(api, headers, body)
    assert passed == body
    assert metered(api, headers, *map(bytes, zip(body))) == (whole, body)
    assert whole.usage is not None
    assert whole.is_whole
    return whole.usage


def test_vector_1_a_stream_of_anthropic_counts_its_last_numbers() -> None:
    usage = usage_of("anthropic", SSE, ANTHROPIC)
    assert (usage.input, usage.cache_read, usage.output, usage.model) == (10, 90, 40, "claude-x-20260101")


def test_vector_5_chunks_of_gemini_are_totals() -> None:
    for headers, body in ((SSE, GEMINI_SSE), (JSON, GEMINI_ARRAY)):
        usage = usage_of("gemini", headers, body)
        assert (usage.input, usage.output, usage.model) == (50, 50, "gemini-x")


def test_vector_6_an_incomplete_response_states_its_usage() -> None:
    usage = usage_of("openai-responses", SSE, RESPONSES)
    assert (usage.input, usage.output, usage.tier) == (12, 30, "default")


def test_streams_of_bedrock() -> None:
    usage = usage_of("bedrock-converse", EVENTS, CONVERSE)
    assert (usage.input, usage.cache_read, usage.output) == (11, 3, 22)
    usage = usage_of("bedrock-invoke", EVENTS, INVOKE)
    assert (usage.input, usage.output, usage.model) == (8, 9, "claude-x")


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("anthropic", {"model": "m", "usage": {"input_tokens": 3, "output_tokens": 4}}),
        ("openai-chat", {"model": "m", "usage": {"prompt_tokens": 3, "completion_tokens": 4}}),
        ("openai-responses", {"model": "m", "usage": {"input_tokens": 3, "output_tokens": 4}}),
        ("bedrock-converse", {"model": "m", "usage": {"inputTokens": 3, "outputTokens": 4}}),
        ("bedrock-invoke", {"model": "m", "prompt_token_count": 3, "generation_token_count": 4}),
    ],
)
def test_answers_in_one_object(api: LlmApi, body: dict[str, object]) -> None:
    usage = usage_of(api, JSON, json.dumps(body).encode())
    assert (usage.input, usage.output) == (3, 4)


def test_an_invoked_model_states_its_usage_in_the_head() -> None:
    counts = (("x-amzn-bedrock-input-token-count", "3"), ("x-amzn-bedrock-output-token-count", "4"))
    answer, _ = metered("bedrock-invoke", (*JSON, *counts), b'{"generation": "x"}')
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output) == (3, 4)
    odd = (("x-amzn-bedrock-input-token-count", "\u0663"),)
    assert metered("bedrock-invoke", (*JSON, *odd), b"{}")[0].usage is None


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_vector_7_the_chunk_that_we_asked_for_is_taken_out_wherever_it_is_cut(end: bytes) -> None:
    body = (CHAT_CHUNKS + CHAT_USAGE + CHAT_DONE).replace(b"\n", end)
    wanted = (CHAT_CHUNKS + CHAT_DONE).replace(b"\n", end)
    for cut in range(len(body)):
        answer, passed = metered("openai-chat", SSE, body[:cut], body[cut:], drops_usage=True)
        assert passed == wanted
        assert answer.usage is not None
        assert (answer.usage.input, answer.usage.cache_read, answer.usage.output) == (40, 60, 7)
    assert metered("openai-chat", SSE, body)[1] == body


def test_a_stream_that_ends_without_a_blank_line_is_read_and_passed_on() -> None:
    body = (CHAT_CHUNKS + CHAT_USAGE).rstrip(b"\n")
    answer, passed = metered("openai-chat", SSE, body, drops_usage=True)
    assert answer.usage is not None
    assert passed == CHAT_CHUNKS
    cut = CHAT_CHUNKS + b"data: {"
    assert metered("openai-chat", SSE, cut, drops_usage=True)[1] == cut


def test_vector_8_a_stream_that_is_cut_has_its_last_numbers_and_its_text() -> None:
    answer, _ = metered("anthropic", SSE, ANTHROPIC[: ANTHROPIC.index(b"event: message_delta")], ends=False)
    assert answer.usage is not None
    assert (answer.usage.input_total, answer.usage.output) == (100, 1)
    assert answer.text_bytes >= len("Hello")
    assert not answer.is_whole
    assert answer.is_stream


def test_vector_22_a_broken_event_stream_raises() -> None:
    meter = AnswerMeter("bedrock-converse")
    meter.begin(200, EVENTS, has_body=True)
    with pytest.raises(AnswerError):
        meter.feed(CONVERSE[:-1] + b"x")
    other = AnswerMeter("bedrock-converse")
    other.begin(200, EVENTS, has_body=True)
    other.feed(CONVERSE[:-1])
    with pytest.raises(AnswerError):
        other.end()


def test_padding_of_converse_is_no_text() -> None:
    answer, _ = metered("bedrock-converse", EVENTS, CONVERSE)
    assert answer.text_bytes == len("Hello")


def test_an_event_too_long_to_be_read_is_flagged_and_passes() -> None:
    body = b"data: " + b"x" * (MAX_SSE_EVENT_BYTES + 1) + b"\n\n" + CHAT_DONE
    answer, passed = metered("openai-chat", SSE, body, drops_usage=True)
    assert answer.has_unread
    assert answer.usage is None
    assert passed == body


@pytest.mark.parametrize(
    "data", ["[1]", "null", "x", '{"usage": 5}', '{"usage": {"a": NaN}}', '{"message": [], "delta": 3}']
)
def test_odd_events_pass_and_state_nothing(data: str) -> None:
    answer, passed = metered("anthropic", SSE, sse(("", data)))
    assert answer.usage is None
    assert passed == sse(("", data))


def test_nothing_came() -> None:
    assert AnswerMeter("anthropic").found == MeteredAnswer(is_stream=True)
    meter = AnswerMeter("anthropic")
    assert not meter.begin(204, (), has_body=False)
    assert meter.found.status == 204
    assert (meter.held, meter.holds_head, meter.changes_length, meter.log()) == (0, False, False, {})
