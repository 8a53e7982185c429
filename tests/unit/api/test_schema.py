"""Requests are strict, and answers leave room for later versions."""

from __future__ import annotations

import inspect

import msgspec
import pytest

from egress.api import process_schema, schema


def kinds(base: type) -> list[type]:
    return [
        each
        for each in (vars(schema) | vars(process_schema)).values()
        if inspect.isclass(each) and issubclass(each, base) and each is not base
    ]


def test_a_request_with_an_unknown_field_is_refused() -> None:
    assert kinds(schema.ApiRequest)
    for kind in kinds(schema.ApiRequest):
        assert kind.__struct_config__.forbid_unknown_fields, kind  # type: ignore[attr-defined]
    with pytest.raises(msgspec.ValidationError, match="unknown"):
        msgspec.json.decode(b'{"unknown": 1}', type=schema.SandboxSettings)


def test_an_answer_of_a_later_version_is_understood() -> None:
    data = b'{"type": "x", "message": "m", "retry": 5}'
    assert msgspec.json.decode(data, type=schema.Problem) == schema.Problem(type="x", message="m")
    for kind in kinds(schema.ApiView):
        assert not kind.__struct_config__.forbid_unknown_fields, kind  # type: ignore[attr-defined]


def test_every_value_is_frozen() -> None:
    for kind in [*kinds(schema.ApiRequest), *kinds(schema.ApiView)]:
        assert kind.__struct_config__.frozen, kind  # type: ignore[attr-defined]
        assert kind.__doc__, kind
