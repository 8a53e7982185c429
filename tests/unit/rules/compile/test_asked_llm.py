"""Calls that somebody asks about: the body says what was asked, in each API."""

from __future__ import annotations

import pytest

from egress.inspect.inspector import Facts
from egress.inspect.kinds import KINDS, inspect_whole
from egress.inspect.llm.llm_call import LlmCall
from egress.rules.compile.asked_llm import asked_llm
from egress.rules.language.report import MeaningError
from egress.types import Head

TARGETS = {
    "anthropic": "/v1/messages",
    "openai-chat": "https://api.example.test/v1/chat/completions?x=1",
    "openai-responses": "/v1/responses",
    "openai-embeddings": "/v1/embeddings",
    "gemini": "/v1beta/models/m:generateContent",
    "bedrock-converse": "/model/m/converse",
    "bedrock-invoke": "/model/m/invoke",
}


def asked(api: str, text: str) -> LlmCall:
    target = TARGETS[api]
    path = target.removeprefix("https://api.example.test")
    found = inspect_whole(KINDS[f"llm.{api}"], Head("POST", "https", "x", 443, path), asked_llm(text, target))
    assert isinstance(found, Facts)
    (call,) = found.items
    assert isinstance(call, LlmCall)
    return call


@pytest.mark.parametrize("api", TARGETS)
def test_the_maximum_and_the_tools_stand_where_the_api_has_them(api: str) -> None:
    call = asked(api, "m max=64 tool=web_search")
    assert call.models == ("m",)
    if api != "openai-embeddings":
        assert (call.max_output, call.server_tools) == (64, ("web_search",))
        assert asked(api, "m").max_output is None


def test_several_answers_and_streams() -> None:
    assert asked("openai-chat", "m n=8 stream").choices == 8
    assert asked("openai-chat", "m stream").is_streamed
    assert asked("gemini", "m n=3").choices == 3


@pytest.mark.parametrize("text", ["", "max=5", "m max=", "m max=x", "m n=9999999999", "m tool=", "m other"])
def test_anything_else_is_reported(text: str) -> None:
    with pytest.raises(MeaningError):
        asked_llm(text, "/v1/messages")


def test_a_path_of_no_known_api_needs_a_body() -> None:
    with pytest.raises(MeaningError, match="known model API"):
        asked_llm("m", "/v2/unknown")
