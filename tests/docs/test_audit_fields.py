"""The page about the audit log comes from its schema, and shows every kind of line as the code writes it."""

from __future__ import annotations

import json
import re

import pytest

from egress.audit import lines
from egress.audit.chain import Chain, Keys
from egress.audit.clock import format_timestamp
from egress.audit.files import Pruning
from egress.audit.gaps import killed_gap
from egress.audit.schema import LINE_KINDS
from egress.audit.verify import GAP_MESSAGES
from scripts.audit_reference import example
from scripts.pages import ROOT, blocks, text
from tests.unit.audit.sample import KEY, MOMENT, OPENING

PAGE = ROOT / "docs/reference/audit.md"
ALWAYS = ("seq", "time", "run", "event", "mac")
BEFORE = "9f" * 32
FRAGMENT = killed_gap((40, 42), b'{"seq":40,"time":"2026-03-01T09:29:58')
STAMP = format_timestamp(MOMENT)


def written(body: str) -> str:
    return Chain(Keys.of(KEY).line).seal(STAMP, body).decode("ascii")


def section(kind: str) -> str:
    found = re.search(rf"^### `{re.escape(kind)}`$(.*?)(?=^##|\Z)", text(PAGE), re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/reference/audit.md has no section for `{kind}`"
    return found[1]


def explained(part: str) -> list[str]:
    """The fields in the first column of a table."""
    return re.findall(r"^\| `([\w.]+)` \|", part, re.MULTILINE)


@pytest.mark.parametrize("kind", LINE_KINDS)
def test_every_field_of_a_kind_of_line_is_explained_and_shown(kind: str) -> None:
    assert explained(section(kind)) == list(LINE_KINDS[kind].__struct_fields__)
    shown = [name for name in json.loads(example(LINE_KINDS[kind])) if name not in ALWAYS]
    assert shown == [name for name in LINE_KINDS[kind].__struct_fields__ if name != "facts"]


def test_the_fields_of_every_line_are_explained() -> None:
    assert explained(text(PAGE).partition("## Every line")[2].partition("\n## ")[0]) == list(ALWAYS)


@pytest.mark.parametrize("kind", LINE_KINDS)
def test_the_example_of_a_kind_is_what_the_code_writes(kind: str) -> None:
    assert f"```json\n{example(LINE_KINDS[kind])}\n```\n" in section(kind)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("lost", lines.lost(OPENING, STAMP, sent=True)),
        ("gap", lines.gap("killed", FRAGMENT.missing, 3, (FRAGMENT.size, FRAGMENT.digest), BEFORE)),
        ("dropped", lines.dropped(17)),
        ("folded", lines.folded("agent-1", "host.unknown", 980, STAMP)),
        ("resumed", lines.resumed("ENOSPC", "all", 4210)),
        ("pruned", lines.pruned(Pruning("root", MOMENT, 3, 201_326_592, 41_217), STAMP)),
        ("rotated", lines.rotated("audit-000001.jsonl", BEFORE)),
        ("killed", lines.event("killed", {"kind": "host", "name": "api.github.com", "connections": 2,
                                          "policy": "5f2b8c0d9e1a4b7c", "kept": True})),
    ],
)  # fmt: skip
def test_what_the_audit_records_looks_like_the_example(kind: str, body: str) -> None:
    assert written(body) == example(LINE_KINDS[kind]) + "\n"


def test_no_section_is_about_a_line_that_is_never_written() -> None:
    kinds = re.findall(r"^### `([\w.]+)`$", text(PAGE), re.MULTILINE)
    assert sorted(kinds) == sorted(LINE_KINDS)
    assert len([block for block in blocks(PAGE) if block.language == "json"]) == len(kinds)


def test_every_kind_of_gap_is_explained() -> None:
    assert all(f"`{kind}`" in section("gap") for kind in (*GAP_MESSAGES, "killed"))
