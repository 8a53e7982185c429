"""The shape of a rule file: closed, strict, and described."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest
from pydantic import BaseModel, ValidationError

from egress.rules.language import body_models, budget_models, delegation_models, model
from egress.rules.language.model import (
    INJECTION_KINDS,
    Host,
    Inject,
    PlaceholderItem,
    RuleFile,
    SecretItem,
)
from egress.rules.language.strict_model import Model


def models_in(annotation: object) -> Iterator[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def every_model() -> list[type[Model]]:
    found: list[type[Model]] = []
    waiting: list[type[Model]] = [RuleFile]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.append(one)
            waiting += [inner for field in one.model_fields.values() for inner in models_in(field.annotation)]
    return found


def test_every_model_of_the_file_is_reached() -> None:
    values = (*vars(model).values(), *vars(body_models).values(), *vars(budget_models).values())
    values += (*vars(delegation_models).values(),)
    defined = {value for value in values if isinstance(value, type) and issubclass(value, BaseModel)}
    bases = {BaseModel, Model, model.Matching, model.Treatment}
    assert defined - bases == set(every_model()) - bases


@pytest.mark.parametrize("one", every_model(), ids=lambda one: one.__name__)
def test_a_model_is_closed_strict_and_frozen(one: type[Model]) -> None:
    # The further keys of an item of `use` are names of presets, whose parameters are typed.
    assert one.model_config["extra"] == ("allow" if one is model.UseItem else "forbid")
    assert one.model_config["strict"] is True
    assert one.model_config["frozen"] is True


@pytest.mark.parametrize("one", every_model(), ids=lambda one: one.__name__)
def test_each_field_is_described_in_one_sentence(one: type[Model]) -> None:
    for name, field in one.model_fields.items():
        assert field.description, name
        assert field.description[0].isupper() or field.description[0] == "`", name
        assert field.description.endswith("."), name
        assert "\n" not in field.description, name


def test_an_injection_has_exactly_its_kinds() -> None:
    assert set(Inject.model_fields) == {*INJECTION_KINDS, "on_existing", "only_for", "strip"}


@pytest.mark.parametrize(
    "value",
    [
        {"http2": 1}, {"http2": "true"}, {"ports": ["443"]}, {"ports": [True]}, {"ports": 443},
        {"methods": "GET"},
        {"allow": True}, {"allow": {}}, {"http": "yes"}, {"http": 1}, {"limits": []}, {"expires": 20270101},
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_not_taken_for_one(value: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Host.model_validate(value)


def test_what_a_host_may_say() -> None:
    host = Host.model_validate(
        {"http": [8080], "allow": "all", "tests": ["GET / -> allow"], "limits": {"requests": "1/hour"}}
    )
    assert (host.http, host.allow) == ([8080], "all")
    assert Host.model_validate({"http": True, "allow": [{"id": "a"}]}).http is True


@pytest.mark.parametrize(
    ("one", "value"),
    [
        (Inject, {"bearer": "s", "only_for": ["a"]}),
        (SecretItem, {"source": "env:A", "hosts": []}),
        (PlaceholderItem, {"secret": "s", "like": "uuid", "slots": ["path"]}),
    ],
)
def test_a_key_is_known_by_the_name_of_the_file_alone(one: type[Model], value: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        one.model_validate(value)


def test_a_canary_stops_nobody_unless_that_is_said() -> None:
    assert model.CanaryItem.model_validate({"like": "aws"}).stop is False


def test_a_placeholder_is_swapped_once_unless_more_is_said() -> None:
    value = {"secret": "s", "like": "uuid", "in": ["path"]}
    assert PlaceholderItem.model_validate(value).max == 1
    assert PlaceholderItem.model_validate({**value, "max": 16}).max == 16
    for wrong in (0, 17, "1", True):
        with pytest.raises(ValidationError):
            PlaceholderItem.model_validate({**value, "max": wrong})
