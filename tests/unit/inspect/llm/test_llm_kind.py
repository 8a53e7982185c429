"""Model calls as kinds of body: pieces, answers, and calls that come back from the log."""

from __future__ import annotations

import json

import pytest

from egress.errors import CODES
from egress.inspect.inspector import MORE, Facts, FactValue, Refusal, Unreadable
from egress.inspect.kinds import KINDS, inspect_whole
from egress.inspect.llm.llm_call import LlmCall
from egress.inspect.llm.llm_kind import LlmKind
from egress.inspect.llm.usage import LLM_APIS
from egress.types import Head, Headers

ANTHROPIC = LlmKind("anthropic")
BODY = b'{"model": "claude-x", "max_tokens": 64, "stream": true, "tools": [{"type": "web_search_20250305"}]}'


def head(path: str = "/v1/messages", headers: Headers = ()) -> Head:
    return Head("POST", "https", "api.example.test", 443, path, headers)


def call_of(kind: LlmKind, asked: Head, body: bytes = BODY) -> LlmCall:
    found = inspect_whole(kind, asked, body)
    assert isinstance(found, Facts)
    (call,) = found.items
    assert isinstance(call, LlmCall)
    return call


def test_there_is_a_kind_for_each_api() -> None:
    assert [f"llm.{api}" for api in LLM_APIS] == [name for name in KINDS if name.startswith("llm.")]


def test_facts_do_not_depend_on_the_pieces() -> None:
    whole, pieces = ANTHROPIC.begin(head()), ANTHROPIC.begin(head())
    assert not isinstance(whole, Facts | Unreadable)
    assert not isinstance(pieces, Facts | Unreadable)
    assert whole.feed(BODY) is MORE
    for at in range(0, len(BODY), 7):
        assert pieces.feed(BODY[at : at + 7]) is MORE
    found = whole.end()
    assert found == pieces.end()
    assert isinstance(found, Facts)
    assert found.log == {
        "llm_models": "claude-x",
        "llm_input_estimate": 33,
        "llm_max_output": 64,
        "llm_server_tools": "web_search",
        "llm_stream": True,
    }


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b'{"model": "a", "model": "b"}', b'\xef\xbb\xbf{"model": "a"}', b'{"model": "a b"}'],
)
def test_a_body_that_cannot_be_read_has_a_code_that_there_is(body: bytes) -> None:
    found = inspect_whole(ANTHROPIC, head(), body)
    assert isinstance(found, Unreadable)
    assert found.code in CODES


def test_a_path_of_another_call_is_refused_before_the_body() -> None:
    gemini = LlmKind("gemini")
    assert gemini.begin(head("/v1/models/x:countTokens")) == Unreadable(
        "llm.shape", "the path is none of a call of this API"
    )
    found = gemini.begin(head("/v1/models/a%20b:generateContent"))
    assert isinstance(found, Unreadable)
    assert found.code == "llm.model"


@pytest.mark.parametrize(
    ("headers", "is_signed"),
    [
        ((), False),
        ((("authorization", "Bearer x"),), False),
        ((("authorization", "AWS4-HMAC-SHA256 Credential=x"),), True),
        ((("content-digest", "sha-256=:x:"),), True),
        ((("x-amz-content-sha256", "x"),), True),
    ],
)
def test_a_body_that_the_client_vouches_for_is_signed(headers: Headers, is_signed: bool) -> None:
    assert call_of(ANTHROPIC, head(headers=headers)).is_signed is is_signed


GEMINI_PATH = "/v1beta/models/g:generateContent"


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("?fields=candidates,usageMetadata/promptTokenCount", ()),
        ("?alt=sse&fields=candidates", ()),
        ("?alt=sse;fields=candidates", ()),
        ("?%66ields=candidates", ()),
        ("?FIELDS=candidates", ()),
        ("?$fields=candidates", ()),
        ("?%24fields=candidates", ()),
        ("", (("x-goog-fieldmask", "candidates"),)),
        ("", (("x_goog_fieldmask", "candidates"),)),
    ],
)
def test_an_answer_whose_fields_the_client_selects_is_not_asked_for(query: str, headers: Headers) -> None:
    found = LlmKind("gemini").begin(head(GEMINI_PATH + query, headers))
    assert found == Unreadable("llm.shape", "the answer could come without its usage")


@pytest.mark.parametrize("query", ["", "?alt=sse", "?key=x&alt=json", "?$alt=json;enum-encoding=int"])
def test_usual_parameters_of_gemini_are_taken(query: str) -> None:
    assert not isinstance(LlmKind("gemini").begin(head(GEMINI_PATH + query)), Unreadable)


@pytest.mark.parametrize("name", ["x-amzn-bedrock-service-tier", "x-amzn-bedrock-performanceconfig-latency"])
def test_a_field_of_the_head_names_the_tier_of_an_invoked_model(name: str) -> None:
    invoke = LlmKind("bedrock-invoke")
    for value, tier in (("Priority", "priority"), ("default", ""), ("standard", "")):
        asked = head("/model/m/invoke", ((name, value),))
        assert call_of(invoke, asked, b'{"max_tokens": 5}').tier == tier


@pytest.mark.parametrize("api", LLM_APIS)
def test_a_call_comes_back_from_the_log(api: str) -> None:
    kind = KINDS[f"llm.{api}"]
    log: dict[str, FactValue] = {
        "llm_models": "a b",
        "llm_input_estimate": 7,
        "llm_max_output": 9,
        "llm_choices": 2,
        "llm_server_tools": "url",
        "llm_tier": "flex",
        "llm_stream": True,
        "llm_unmetered": True,
    }
    recalled = kind.recall(log)
    assert recalled is not None
    (call,) = recalled.items
    assert isinstance(call, LlmCall)
    assert (call.models, call.max_output, call.choices, call.server_tools) == (("a", "b"), 9, 2, ("url",))
    assert kind.recall({"llm_models": "a…"}) is None
    assert kind.recall({}) is None
    assert kind.recall({"llm_models": "a", "llm_max_output": "9"}) is None


@pytest.mark.parametrize(
    ("api", "path"),
    [
        ("anthropic", ("error", "message")),
        ("openai-chat", ("error", "message")),
        ("gemini", ("error", "message")),
        ("bedrock-converse", ("message",)),
    ],
)
def test_vector_19_a_denial_says_in_the_words_of_the_vendor_whether_waiting_helps(
    api: str, path: tuple[str, ...]
) -> None:
    kind = KINDS[f"llm.{api}"]
    for wait, status in ((30, 429), (60, 429), (61, 403), (1200, 403), (0, 403)):
        answer = kind.answer(
            Refusal("llm.budget", "Nothing is left.", item="budget x", retry_after=wait), None
        )
        assert answer.status == status
        value = json.loads(answer.body)
        for name in path:
            value = value[name]
        assert "Nothing is left." in value
        assert "(budget x)" in value
        assert ("It reopens in about 20 minutes." in value) is (wait == 1200)
