"""Fields of a model request, in the one spelling that its API has.

A server may read a name without regard to case, or in a second spelling, and then see another number than the
reader here. So a name that differs from a known one only in case or underscores is refused, and so are two
names for one field.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from egress.inspect.inspector import Unreadable
from egress.inspect.strict_json import JsonValue

MAX_MODEL_CHARS: Final = 256
MAX_STATED_TOKENS: Final = 10**9
MAX_LISTED_OBJECTS: Final = 1000
"""Objects in a list of tools, servers or fallbacks: each is looked at."""


class LlmRequestError(ValueError):
    """A request whose meaning is not certain. The text is ours and never quotes the body."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.unreadable = Unreadable(code, detail)


Fields = tuple[tuple[str, ...], ...]


class RequestFields:
    """An object of a request, whose known names stand in one spelling each."""

    def __init__(self, value: Mapping[str, JsonValue], fields: Fields) -> None:
        """`fields` are the fields that count, each with the spellings that its API takes."""
        spellings = _spellings(fields)
        found: dict[str, JsonValue] = {}
        for name, each in value.items():
            field = spellings.get(_folded(name))
            if field is None:
                continue
            if name not in field or field[0] in found:
                raise LlmRequestError("llm.ambiguous", f"`{field[0]}` is there twice, or in another spelling")
            found[field[0]] = each
        self._found = found

    def get(self, name: str) -> JsonValue:
        """Return the value of a field by its first spelling; null counts as missing."""
        return self._found.get(name)

    def text(self, name: str) -> str:
        """Return a text; empty where it is missing."""
        value = self.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise LlmRequestError("llm.shape", f"`{name}` is not a text")
        return value

    def count(self, name: str, least: int = 0) -> int | None:
        """Return a number that is not negative; None where it is missing."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_STATED_TOKENS:
            raise LlmRequestError("llm.shape", f"`{name}` is not a sensible whole number")
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean; false where it is missing."""
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise LlmRequestError("llm.shape", f"`{name}` is neither true nor false")
        return bool(value)

    def mapping(self, name: str, fields: Fields = ()) -> RequestFields:
        """Return an object within this one; an empty one where it is missing."""
        value = self.get(name)
        if value is not None and not isinstance(value, dict):
            raise LlmRequestError("llm.shape", f"`{name}` is not an object")
        return RequestFields(value or {}, fields)

    def objects(self, name: str) -> list[dict[str, JsonValue]]:
        """Return a list of objects; an empty one where it is missing."""
        value = self.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise LlmRequestError("llm.shape", f"`{name}` is not a list")
        if len(value) > MAX_LISTED_OBJECTS:
            raise LlmRequestError("llm.shape", f"`{name}` is too long")
        return [_as_object(each, name) for each in value]


def _as_object(value: JsonValue, name: str) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise LlmRequestError("llm.shape", f"`{name}` is not a list of objects")
    return value


def model_name(text: str) -> str:
    """Return the name of a model, checked: a rule can only be about a name that can be read."""
    if not text:
        raise LlmRequestError("llm.model", "the request names no model")
    if len(text) > MAX_MODEL_CHARS or not text.isascii() or not text.isprintable() or " " in text:
        raise LlmRequestError("llm.model", "the name of the model cannot be read")
    return text


@functools.cache
def _spellings(fields: Fields) -> Mapping[str, tuple[str, ...]]:
    return {_folded(name): field for field in fields for name in field}


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
