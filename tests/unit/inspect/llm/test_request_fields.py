"""Fields of a request in one spelling each."""

from __future__ import annotations

import pytest

from egress.inspect.llm.request_fields import LlmRequestError, RequestFields, model_name


def test_a_field_has_the_spellings_that_its_api_takes() -> None:
    fields = RequestFields({"max_tokens": 3, "other": 1}, (("maxTokens", "max_tokens"),))
    assert fields.count("maxTokens") == 3
    assert fields.get("other") is None


@pytest.mark.parametrize("name", ["MaxTokens", "max-tokens", "maxtokens", "MAX_TOKENS", "_max_tokens"])
def test_a_spelling_that_some_server_may_take_is_refused(name: str) -> None:
    with pytest.raises(LlmRequestError, match="another spelling"):
        RequestFields({name: 3}, (("max_tokens",),))


def test_values_of_another_type_are_refused() -> None:
    fields = RequestFields({"a": 1, "b": "x", "c": None}, (("a",), ("b",), ("c",)))
    for read, name in (
        (fields.text, "a"),
        (fields.count, "b"),
        (fields.flag, "b"),
        (fields.objects, "b"),
        (fields.mapping, "b"),
    ):
        with pytest.raises(LlmRequestError):
            read(name)
    assert (fields.text("c"), fields.count("c"), fields.flag("c"), fields.objects("c")) == (
        "",
        None,
        False,
        [],
    )
    assert fields.mapping("c", (("x",),)).get("x") is None


def test_a_name_of_a_model_is_one_printable_word() -> None:
    assert model_name("claude-x") == "claude-x"
    for text in ("", "a b", "\x7f", "a\tb"):
        with pytest.raises(LlmRequestError):
            model_name(text)
