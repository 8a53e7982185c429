"""The page about the audit log shows every kind of line as the code writes it, and explains every field."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from egress.audit import lines
from egress.audit.chain import Chain, Keys
from egress.audit.clock import TimestampFormatter
from egress.audit.files import Pruning
from egress.audit.gaps import killed_gap
from egress.audit.lines import EVENTS
from egress.audit.verify import GAP_MESSAGES
from egress.types import Place
from scripts.pages import ROOT, blocks, text
from tests.unit.audit.sample import FACTS, KEY, MOMENT, NAME, OPENING, RECORD, TUNNEL, Clock

PAGE = ROOT / "docs/reference/audit.md"
ALWAYS = ("seq", "time", "event", "mac")
BEFORE = "9f" * 32
FRAGMENT = killed_gap((40, 42), b'{"seq":40,"time":"2026-03-01T09:29:58')

POLICY = "5f2b8c0d9e1a4b7c"
FILES = "config/hosts.yaml"
FACTS_OF: dict[str, dict[str, str | int | None]] = {
    "started": {"version": "0.1.0", "policy": POLICY, "files": FILES},
    "stopped": {"reason": "SIGTERM"},
    "reloaded": {"policy": POLICY, "policy_before": "0a1b2c3d4e5f6071", "files": FILES},
    "reload.refused": {
        "policy": POLICY,
        "file": FILES,
        "line": 12,
        "column": 5,
        "reason": "unknown key `alow`",
    },
    "killed": {"kind": "host", "name": "api.github.com", "connections": 2, "policy": POLICY},
    "kill.undone": {"kind": "host", "name": "api.github.com", "policy": POLICY},
    "sandbox.added": {
        "sandbox": "agent-2",
        "profile": "coding",
        "authority": ":".join(["9F", "2C", "11", "D4"] * 8),
        "policy": POLICY,
    },
    "sandbox.removed": {"sandbox": "agent-2", "connections": 1, "policy": POLICY},
    "listener.failed": {
        "sandbox": "agent-1",
        "address": "10.0.0.2",
        "port": 8443,
        "reason": "the proxy cannot listen on 10.0.0.2:8443: address already in use",
        "policy": POLICY,
    },
    "sandbox.stopped": {"sandbox": "agent-1", "reason": "quota", "bytes": 1048711, "quota": 1048576},
}


def bodies() -> dict[str, str]:
    """One of every kind of line there is."""
    stamp = TimestampFormatter(Clock()).at(MOMENT)
    tunnel = replace(TUNNEL, place=Place(FILES, 31, 3), sni=TUNNEL.host, policy=POLICY)
    return {
        "exchange": lines.exchange(replace(RECORD, policy=POLICY), FACTS),
        "tunnel": lines.tunnel(replace(tunnel, bytes_up=1804, bytes_down=91520)),
        "refusal": lines.refusal(replace(NAME, policy=POLICY)),
        "folded": lines.folded("agent-1", "host.unknown", 980, stamp),
        "lost": lines.lost(OPENING, stamp, sent=True),
        "gap": lines.gap("killed", FRAGMENT.missing, 3, (FRAGMENT.size, FRAGMENT.digest), BEFORE),
        "dropped": lines.dropped(17),
        "resumed": lines.resumed("ENOSPC", "all", 4210),
        "pruned": lines.pruned(Pruning("root", MOMENT, 3, 201_326_592, 41_217), stamp),
        "rotated": lines.rotated("audit-000001.jsonl", BEFORE),
        **{kind: lines.event(kind, FACTS_OF[kind]) for kind in EVENTS},
    }


def written(body: str) -> str:
    return Chain(Keys.of(KEY).line).seal(TimestampFormatter(Clock()).now(), body).decode("ascii")


def section(kind: str) -> str:
    found = re.search(rf"^### `{re.escape(kind)}`$(.*?)(?=^##|\Z)", text(PAGE), re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/reference/audit.md has no section for `{kind}`"
    return found[1]


def explained(part: str) -> list[str]:
    """The fields in the first column of a table."""
    names = re.findall(r"^\| ((?:`[\w.]+`(?:, )?)+) \|", part, re.MULTILINE)
    return [name for cell in names for name in re.findall(r"`([\w.]+)`", cell)]


@pytest.mark.parametrize("kind", bodies())
def test_every_field_of_a_kind_of_line_is_explained(kind: str) -> None:
    fields = [field for field in json.loads(written(bodies()[kind])) if field not in ALWAYS]
    assert explained(section(kind)) == fields


def test_the_fields_of_every_line_are_explained() -> None:
    assert explained(text(PAGE).partition("## Every line")[2].partition("\n## ")[0]) == list(ALWAYS)


@pytest.mark.parametrize("kind", bodies())
def test_the_example_of_a_kind_is_what_the_code_writes(kind: str) -> None:
    assert f"```json\n{written(bodies()[kind])}```\n" in section(kind)


def test_no_section_is_about_a_line_that_is_never_written() -> None:
    kinds = re.findall(r"^### `([\w.]+)`$", text(PAGE), re.MULTILINE)
    assert sorted(kinds) == sorted(bodies())
    assert len([block for block in blocks(PAGE) if block.language == "json"]) == len(kinds)


def test_every_event_has_an_example() -> None:
    assert FACTS_OF.keys() == EVENTS.keys()
    assert all(FACTS_OF[kind].keys() <= set(facts) for kind, facts in EVENTS.items())


def test_every_kind_of_gap_is_explained() -> None:
    assert all(f"`{kind}`" in section("gap") for kind in (*GAP_MESSAGES, "killed"))
