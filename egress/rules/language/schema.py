"""The JSON schema of a rule file, for editors and for `check-jsonschema`.

Covers the shape only; `egress check` also checks the meaning. Generated from the model, so the two cannot
disagree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from egress.rules.language.model import RuleFile

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_LEADING_KEYS = ("id", "methods", "paths", "query", "headers", "content_type")

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


def build_schema() -> dict[str, Json]:
    """Return the schema as plain data."""
    generated: dict[str, Json] = RuleFile.model_json_schema(by_alias=True)
    cleaned = _without_noise(generated)
    if not isinstance(cleaned, dict):  # pragma: no cover - a model's schema is a mapping
        raise TypeError("the schema is no mapping")
    definitions = cleaned.pop("$defs")
    return {"$schema": SCHEMA_DIALECT, "title": "Egress rules", **cleaned, "$defs": definitions}


def schema_text() -> str:
    """Return the schema as it is committed: indented, with a newline at its end."""
    return json.dumps(build_schema(), indent=2, ensure_ascii=False) + "\n"


def _without_noise(value: Json) -> Json:
    """Drop parts that no editor shows: generated titles, null alternatives and null defaults."""
    if isinstance(value, list):
        return [_without_noise(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    options = value.get("anyOf")
    if isinstance(options, list):
        kept = [option for option in options if option != {"type": "null"}]
        if len(kept) == 1 and isinstance(kept[0], Mapping):
            rest = {key: item for key, item in value.items() if key != "anyOf"}
            return _without_noise({**kept[0], **rest})
        value = {**value, "anyOf": kept}
    return {
        key: _without_noise_in_named(item) if key in ("properties", "$defs") else _without_noise(item)
        for key, item in value.items()
        if not (key == "title" and isinstance(item, str)) and not (key == "default" and item is None)
    }


def _in_reading_order(properties: Mapping[str, Json]) -> dict[str, Json]:
    """Order keys as editors offer them: identity and predicates before treatment."""
    first = {key: properties[key] for key in _LEADING_KEYS if key in properties}
    return {**first, **properties}


def _without_noise_in_named(value: Json) -> Json:
    """Clean the values below `properties`, whose keys are names: a property may be called `title`."""
    if not isinstance(value, Mapping):
        return value
    return {key: _without_noise(item) for key, item in _in_reading_order(value).items()}
