"""Bodies written anew: vectors 15 and 16 of the budgets."""

from __future__ import annotations

import json

import pytest

from egress.inspect.llm.body_rewrite import BodyChange, rewritten_body
from egress.inspect.llm.llm_call import LlmCall
from egress.inspect.llm.usage import LlmApi
from egress.inspect.strict_json import read_strict_json


def rewritten(api: LlmApi, body: str, change: BodyChange) -> object:
    document = read_strict_json(body.encode())
    assert isinstance(document, dict)
    made = rewritten_body(LlmCall(api, ("m",)), document, change)
    return None if made is None else json.loads(made)


LOWER = BodyChange(max_output=16)


@pytest.mark.parametrize(
    ("api", "body", "wanted"),
    [
        ("anthropic", '{"max_tokens": 64}', {"max_tokens": 16}),
        (
            "anthropic",
            '{"max_tokens": 64, "fallbacks": [{"max_tokens": 99}, {"max_tokens": 3}, {"model": "x"}]}',
            {"max_tokens": 16, "fallbacks": [{"max_tokens": 16}, {"max_tokens": 3}, {"model": "x"}]},
        ),
        ("openai-chat", "{}", {"max_completion_tokens": 16}),
        ("openai-chat", '{"max_tokens": 64}', {"max_tokens": 16}),
        ("openai-responses", "{}", {"max_output_tokens": 16}),
        ("gemini", "{}", {"generationConfig": {"maxOutputTokens": 16}}),
        (
            "gemini",
            '{"generation_config": {"max_output_tokens": 64, "top_k": 1}}',
            {"generation_config": {"max_output_tokens": 16, "top_k": 1}},
        ),
        ("bedrock-converse", "{}", {"inferenceConfig": {"maxTokens": 16}}),
        ("bedrock-invoke", '{"max_gen_len": 64}', {"max_gen_len": 16}),
        ("bedrock-invoke", '{"anthropic_version": "x"}', {"anthropic_version": "x", "max_tokens": 16}),
        (
            "bedrock-invoke",
            '{"textGenerationConfig": {"maxTokenCount": 64}}',
            {"textGenerationConfig": {"maxTokenCount": 16}},
        ),
        ("bedrock-invoke", '{"prompt": "x"}', None),
        (
            "openai-chat",
            '{"max_tokens": null, "max_completion_tokens": 64}',
            {"max_tokens": None, "max_completion_tokens": 16},
        ),
        (
            "bedrock-invoke",
            '{"max_tokens": null, "max_gen_len": 64}',
            {"max_tokens": None, "max_gen_len": 16},
        ),
        (
            "bedrock-invoke",
            '{"inferenceConfig": {"max_new_tokens": null, "maxTokens": 64}}',
            {"inferenceConfig": {"max_new_tokens": None, "maxTokens": 16}},
        ),
    ],
)
def test_vector_16_the_maximum_stands_where_the_api_has_it(api: LlmApi, body: str, wanted: object) -> None:
    assert rewritten(api, body, LOWER) == wanted


def test_vector_15_answers_at_once_are_lowered() -> None:
    fewer = BodyChange(choices=1)
    assert rewritten("openai-chat", '{"n": 8}', fewer) == {"n": 1}
    assert rewritten("gemini", '{"generationConfig": {"candidate_count": 8}}', fewer) == {
        "generationConfig": {"candidate_count": 1}
    }
    assert rewritten("anthropic", "{}", fewer) is None


def test_vector_7_the_usage_of_a_stream_is_asked_for() -> None:
    asked = BodyChange(adds_usage=True)
    assert rewritten("openai-chat", '{"stream_options": {"include_usage": false, "x": 1}}', asked) == {
        "stream_options": {"include_usage": True, "x": 1}
    }
    assert rewritten("openai-chat", '{"stream_options": null}', asked) == {
        "stream_options": {"include_usage": True}
    }


def test_every_other_value_is_written_as_it_came() -> None:
    body = '{"a":[],"b":{},"c":[1.50,1e400,-0.0,12345678901234567890],"d":"\\u0000\\"é\\ud83d\\ude00",'
    body += '"e":[null,true]}'
    document = read_strict_json(body.encode())
    assert isinstance(document, dict)
    made = rewritten_body(LlmCall("openai-chat", ("m",)), document, BodyChange())
    assert made is not None
    assert read_strict_json(made) == document
    assert b"[1.50,1e400,-0.0,12345678901234567890]" in made


def test_a_change_without_bounds_is_none() -> None:
    assert not BodyChange().is_needed
    assert LOWER.is_needed
