"""Validate values against the model, with findings in plain words.

The validator reports types; people think in lines. Each of its errors becomes one sentence with the value
found, the value expected, and the likely intention. Values are not quoted: a rule file may hold a credential
by mistake.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from egress.rules.language.document import MissingValue, Value
from egress.rules.language.report import DocumentCursor, did_you_mean, quoted
from egress.rules.language.strict_model import Model

_EXPECTED_TYPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
_EMPTY_LIST_HINTS = {"for": "name allow rules; without `for` it applies to every allowed request"}
"""Hints for lists whose empty form is likely to be meant as a wildcard."""


def validate[M: Model](model: type[M], value: object, at: DocumentCursor) -> M | None:
    """Return `value` as an instance of `model`, or None after reporting all its mistakes."""
    try:
        return model.model_validate(value)
    except ValidationError as errors:
        for error in errors.errors(include_url=False, include_context=True, include_input=True):
            if not isinstance(error["input"], MissingValue):
                _report_error(model, error, at)
        return None


def validate_sound_keys[M: Model](model: type[M], value: Value) -> M | None:
    """Return `value` without the keys of a wrong shape, so that the remaining keys are still compiled."""
    if not isinstance(value, dict):
        return None
    try:
        return model.model_validate(value)
    except ValidationError as errors:
        wrong = {error["loc"][0] for error in errors.errors(include_url=False) if error["loc"]}
        rest = {key: item for key, item in value.items() if key not in wrong}
        return validate_sound_keys(model, rest) if len(rest) < len(value) else None


def _report_error(model: type[Model], error: ErrorDetails, at: DocumentCursor) -> None:
    kind, steps = error["type"], error["loc"]
    # A test with an unquoted `: ` is reported once, by its unknown key.
    if kind == "missing" and _unquoted_test(error["input"]):
        return
    here = DocumentCursor(at.report, at.document, (*at.path, *steps))
    last = steps[-1] if steps else ""
    if kind == "extra_forbidden":
        known = keys_of(model, steps[:-1])
        if "request" in known and " " in str(last):
            here.key_error("this test contains `: `, so YAML reads it as a mapping", "put the test in quotes")
            return
        here.key_error(f"unknown key {quoted(last)}", did_you_mean(str(last), known))
    elif kind == "missing":
        here.error(f"the key {quoted(last)} is missing", _missing_hint(model, steps))
    else:
        here.error(*_wrong_value(error, str(last)))


def _unquoted_test(value: object) -> bool:
    """Report whether a mapping is a test whose `: ` was read as the end of a key."""
    return isinstance(value, dict) and any(" " in str(key) for key in value)


def _wrong_value(error: ErrorDetails, name: str) -> tuple[str, str]:
    kind, found = error["type"], _kind_of(error["input"])
    context = error.get("ctx", {})
    if kind == "union":
        return f"this must be {_article(error['msg'])}, not {found}", ""
    if kind == "literal_error":
        expected = str(context.get("expected", "")).replace("'", "`").replace("True", "`true`")
        if isinstance(error["input"], str):
            return _wrong_word(error["input"], expected)
        return f"this must be {expected}, not {found}", ""
    if kind in _EXPECTED_TYPES:
        hint = ""
        # Numbers and single words are the usual cause: YAML types them without quotes.
        if kind == "string_type" and found == "a number":
            hint = "put it in quotes"
        if kind == "list_type" and found == "text":
            hint = "put it in brackets: [...]"
        return f"this must be {_EXPECTED_TYPES[kind]}, not {found}", hint
    if kind == "greater_than_equal":
        return f"this must be at least {context.get('ge')}", ""
    if kind == "less_than_equal":
        return f"this must be at most {context.get('le')}", ""
    if kind == "too_short":
        return "this list must not be empty", _EMPTY_LIST_HINTS.get(name, "")
    return f"this is not a valid {name or 'value'}", ""


def _wrong_word(word: str, expected: str) -> tuple[str, str]:
    # Where `any` is the only word, a list may stand as well, and a list with this word was meant.
    if expected == "`any`":
        return f"this must be a list or `any`, not {quoted(word)}", "put it in brackets: [...]"
    choices = expected.replace("`", "").replace(" or ", ", ").split(", ")
    return f"{quoted(word)} is not one of {expected}", did_you_mean(word, choices)


def _article(kinds: str) -> str:
    words = {"list": "a list", "mapping": "a mapping"}
    return " or ".join(words.get(kind, kind) for kind in kinds.split(" or "))


def _kind_of(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text" if value else "nothing"
    return "a list" if isinstance(value, list) else "a mapping"


def _missing_hint(model: type[Model], steps: tuple[int | str, ...]) -> str:
    for nested in _models_at(model, steps[:-1]):
        for name, field in nested.model_fields.items():
            if (field.alias or name) == steps[-1] and field.description:
                return field.description
    return ""


def keys_of(model: type[Model], steps: tuple[int | str, ...]) -> list[str]:
    """Return the keys that the model has at a location of a value."""
    return [
        field.alias or name
        for nested in _models_at(model, steps)
        for name, field in nested.model_fields.items()
    ]


def _models_at(model: type[Model], steps: tuple[int | str, ...]) -> list[type[Model]]:
    current: list[type[Model]] = [model]
    # Steps that name no field are union tags or list indexes of the validator: stay at the same models.
    for step in steps:
        for nested in current:
            for name, field in nested.model_fields.items():
                if (field.alias or name) == step:
                    found = list(_models_in(field.annotation))
                    if found:
                        current = found
    return current


def _models_in(annotation: object) -> Iterator[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
