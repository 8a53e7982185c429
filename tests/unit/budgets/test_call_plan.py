"""Bounds of a call: those of the rules, or what a budget has left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from egress.budgets.call_plan import MIN_CLAMPED_TOKENS, plan_call
from egress.inspect.llm.body_rewrite import BodyChange
from egress.inspect.llm.llm_call import LlmCall
from egress.rules.decide.llm_predicate import LlmTerms
from tests.unit.budgets.specs import call, plan

TERMS = LlmTerms("anthropic", max_output=16_000, clamps=True, budgets=("agents",))


@pytest.mark.parametrize(
    ("asked", "sent", "said"),
    [(64_000, 16_000, "64000 -> 16000"), (None, 16_000, "none -> 16000"), (100, 100, None)],
)
def test_vector_16_the_output_is_lowered_to_that_of_the_rule(
    asked: int | None, sent: int, said: str | None
) -> None:
    made = plan_call(TERMS, call(output=asked))
    assert made.output == sent
    assert made.facts() == ({} if said is None else {"llm_clamped": said})
    assert made.change.is_needed is (said is not None)


def test_vector_15_answers_at_once_share_the_output() -> None:
    chat = LlmCall("openai-chat", ("m",), max_output=9000, choices=8)
    made = plan_call(replace(TERMS, api="openai-chat", choices=2), chat)
    assert (made.choices, made.max_output, made.output) == (2, 8000, 16_000)
    assert made.facts() == {"llm_clamped": "9000 -> 8000", "llm_choices_clamped": "8 -> 2"}


def test_the_usage_of_a_stream_is_asked_for_only_under_a_budget() -> None:
    chat = LlmCall("openai-chat", ("m",), max_output=9, is_streamed=True, has_usage=False)
    assert plan_call(TERMS, chat).change == BodyChange(adds_usage=True)
    assert not plan_call(replace(TERMS, budgets=()), chat).change.is_needed
    assert not plan_call(TERMS, replace(chat, is_signed=True)).change.is_needed


def test_embeddings_have_no_output() -> None:
    made = plan_call(TERMS, LlmCall("openai-embeddings", ("m",), max_output=0))
    assert (made.output, made.change.is_needed) == (0, False)


def test_a_call_is_not_cut_shorter_than_is_of_use() -> None:
    made = plan(output=1000)
    smaller = made.within(MIN_CLAMPED_TOKENS)
    assert smaller is not None
    assert smaller.output == MIN_CLAMPED_TOKENS
    assert made.within(MIN_CLAMPED_TOKENS - 1) is None
