"""Choices of handlers as values of the API."""

from __future__ import annotations

import msgspec
import pytest

from egress.api.handler_schema import MAX_CHOSEN_HOSTS, ChosenHandler, HandlerSettings, HandlersView


def test_a_choice_is_read_strictly() -> None:
    made = msgspec.json.decode(
        b'{"by_host": {"a.example.com": {"use": "kv", "params": {"n": [1]}}}}', type=HandlerSettings
    )
    assert made.by_host == {"a.example.com": ChosenHandler(use="kv", params={"n": [1]})}
    assert made.catch_all is None
    for wrong in (b'{"hosts": {}}', b'{"by_host": {"a": "kv"}}', b'{"catch_all": {"params": {}}}'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(wrong, type=HandlerSettings)


def test_a_choice_is_bounded() -> None:
    many = {f"h{n}.example.com": {"use": "kv"} for n in range(MAX_CHOSEN_HOSTS + 1)}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"by_host": many}, HandlerSettings)


def test_a_view_tells_what_can_be_chosen() -> None:
    shown = HandlersView(loaded=("kv",), by_host={}, catch_all=ChosenHandler(use="kv"))
    assert msgspec.to_builtins(shown) == {
        "loaded": ("kv",),
        "by_host": {},
        "catch_all": {"use": "kv", "params": {}},
    }
