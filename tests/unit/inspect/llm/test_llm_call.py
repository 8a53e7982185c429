"""A call, as people read it."""

from __future__ import annotations

from egress.inspect.llm.llm_call import LlmCall


def test_a_call_shows_its_models_and_its_maximum() -> None:
    assert str(LlmCall("anthropic", ("a", "b"), max_output=5)) == "a b max=5"
    assert str(LlmCall("anthropic", ("a",))) == "a"
