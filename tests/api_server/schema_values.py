"""Values that a JSON schema of the API allows, and values that it does not, for hypothesis to draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

type Json = Any
type Schema = Mapping[str, Any]

_TEXTS: Final = st.one_of(
    st.sampled_from(
        ["one", "two", "notes.txt", ".", "/tmp", "..", "a/../../b", "true", "HUP", "sh", "", "\n", "é"]
    ),
    st.text(max_size=20),
)
_NUMBERS: Final = st.one_of(st.integers(0, 100), st.integers(-(2**63), 2**63), st.floats(allow_nan=False))
_ANY: Final = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=4,
)


@dataclass(frozen=True)
class SchemaValues:
    """Strategies for the schemas of one document."""

    components: Mapping[str, Schema]

    def fitting(self, schema: Schema) -> st.SearchStrategy[Json]:
        """Values that the schema allows, as far as it says what is allowed."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return st.deferred(lambda: self.fitting(self.components[name]))
        for words in ("anyOf", "oneOf"):
            if words in schema:
                return st.one_of([self.fitting(each) for each in schema[words]])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        return self._of_type(schema)

    def any(self, schema: Schema) -> st.SearchStrategy[Json]:
        """Mostly values that fit, and such with one thing that does not."""
        return st.one_of(self.fitting(schema), self.fitting(schema), self._spoilt(schema))

    def _of_type(self, schema: Schema) -> st.SearchStrategy[Json]:
        match schema.get("type"):
            case "object":
                return self._object(schema)
            case "array":
                return st.lists(self.fitting(schema.get("items", {})), max_size=3)
            case "string" if "pattern" in schema:
                return st.from_regex(schema["pattern"], fullmatch=True)
            case "string":
                return _TEXTS.map(lambda text: text[: schema.get("maxLength", 100)])
            case "integer":
                return st.one_of(st.integers(0, 10), st.integers(schema.get("minimum", -(2**40)), 2**40))
            case "number":
                return st.one_of(st.floats(0, 2), st.floats(allow_nan=False, allow_infinity=False))
            case "boolean":
                return st.booleans()
            case "null":
                return st.none()
            case _:
                return _ANY

    def _object(self, schema: Schema) -> st.SearchStrategy[Json]:
        fields = {name: self.fitting(each) for name, each in schema.get("properties", {}).items()}
        needed = {name: fields.pop(name) for name in schema.get("required", ())}
        more = schema.get("additionalProperties")
        if not fields and not needed and isinstance(more, dict):
            return st.dictionaries(_TEXTS, self.fitting(more), max_size=3)
        return st.fixed_dictionaries(needed, optional=fields)

    def _spoilt(self, schema: Schema) -> st.SearchStrategy[Json]:
        fields = st.dictionaries(_TEXTS, _ANY, min_size=1, max_size=2)
        spoilt = st.tuples(self.fitting(schema), fields).map(lambda both: _merged(*both))
        return st.one_of(_ANY, spoilt)


def _merged(value: Json, fields: dict[str, Json]) -> Json:
    """An object with fields that it should not have, or with others' values in its own."""
    if not isinstance(value, dict):
        return fields
    return {**value, **(dict(zip(value, fields.values(), strict=False)) or fields)}
