"""The JSON schema: valid itself, true to the rules, and current where it is committed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from egress.policy.bundled_presets import preset_texts
from egress.rules.compile.load import RuleText, load
from egress.rules.language.document import Value, read
from egress.rules.language.schema import SCHEMA_DIALECT, build_schema, schema_text
from tests.unit.rules.compile.test_policy_writer import FILES

ROOT = Path(__file__).parents[4]
CONFIG = ROOT / "config"
VALIDATOR = Draft202012Validator(build_schema())


def value_of(text: str) -> Value:
    document, findings = read("hosts.yaml", text)
    assert not findings
    return document.value


def complaints(text: str) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(value_of(text))]


def test_it_is_a_schema_of_the_dialect_that_it_names() -> None:
    assert build_schema()["$schema"] == SCHEMA_DIALECT == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(build_schema())


def test_the_committed_schema_is_current() -> None:
    assert (CONFIG / "hosts.schema.json").read_text("utf-8") == schema_text(), "run make schema"


def test_the_text_is_the_schema() -> None:
    assert json.loads(schema_text()) == build_schema()
    assert schema_text().endswith("}\n")


def test_the_shipped_rules_fit() -> None:
    assert complaints((CONFIG / "hosts.yaml").read_text("utf-8")) == []


@pytest.mark.parametrize("name", FILES)
def test_rules_that_load_fit(name: str) -> None:
    assert complaints(FILES[name]) == []


MISTAKES = {
    "an unknown key at the top": "version: 1\nhost: {}\n",
    "an unknown key of an entry": "version: 1\nhosts: {a.example: {alow: []}}\n",
    "an unknown key of a rule": "version: 1\nhosts: {a.example: {allow: [{id: x, method: [GET]}]}}\n",
    "no version": "hosts: {}\n",
    "another version": "version: 2\n",
    "a rule without an id": "version: 1\nhosts: {a.example: {allow: [{methods: [GET]}]}}\n",
    "a text for a list": "version: 1\nhosts: {a.example: {methods: GET}}\n",
    "a word that allow is not": "version: 1\nhosts: {a.example: {allow: some}}\n",
    "two kinds in one item of inject": (
        "version: 1\nhosts: {a.example: {allow: all, inject: [{bearer: t, basic: {user: u, secret: t}}]}}\n"
    ),
    "no kind in an item of inject": (
        "version: 1\nhosts: {a.example: {allow: all, inject: [{on_existing: fail}]}}\n"
    ),
    "a port that is none": "version: 1\nhosts: {a.example: {ports: [70000]}}\n",
    "a mode that is none": "version: 1\nmode: loose\n",
    "a secret without hosts": 'version: 1\nsecrets: {t: {from: "env:T"}}\n',
    "an empty command": "version: 1\nsecrets: {t: {from: {command: []}, hosts: [a.example]}}\n",
    "a deny with effects": "version: 1\ndeny: [{id: x, paths: [/a], scrub: mask}]\n",
    "absent: false": "version: 1\nhosts: {a.example: {headers: {x: {absent: false}}}}\n",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_typical_mistake_is_seen_by_both(mistake: str) -> None:
    text = MISTAKES[mistake]
    assert complaints(text)
    assert load([RuleText("hosts.yaml", text)], preset_texts()).policy is None


def test_what_editors_show_is_free_of_noise() -> None:
    text = schema_text()
    assert '"null"' not in text
    assert '"default": null' not in text
    assert text.count('"title"') == 1


def test_a_property_may_be_called_title() -> None:
    """Only the titles that were generated go, not what stands under `properties`."""
    from egress.rules.language.schema import _without_noise

    shape = {"title": "X", "properties": {"title": {"title": "Title", "type": "string"}}}
    assert _without_noise(shape) == {"properties": {"title": {"type": "string"}}}  # type: ignore[arg-type]


def test_keys_are_offered_in_reading_order() -> None:
    definitions = json.loads(schema_text())["$defs"]
    assert list(definitions["Allow"]["properties"])[:3] == ["id", "methods", "paths"]
    assert list(json.loads(schema_text())["properties"])[:3] == ["version", "secrets", "hosts"]
    assert list(build_schema())[-1] == "$defs"


def test_every_key_has_a_description() -> None:
    definitions = json.loads(schema_text())
    for shape in [definitions, *definitions["$defs"].values()]:
        for name, key in shape.get("properties", {}).items():
            assert key.get("description"), name
