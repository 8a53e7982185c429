"""Find out which tools work in a sandbox, and write it to docs/works-with.json: the tests are asked.

    python -m scripts.works_with               every tool
    python -m scripts.works_with gh Codex      these; what is known of the others stays

The tests of tests/tools run each tool in both runtimes. A tool is written down when each of its tests has
passed; one that could not be run stands there with the reason. `python -m scripts.docs` makes the page.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from scripts.asked_tests import ask_tests, renew_and_report
from scripts.pages import ROOT

TOOL_TABLE = ROOT / "docs/works-with.json"
TOOL_TESTS = "tests/tools"


class ToolRow(TypedDict):
    """What is known of one tool."""

    family: str
    test: str
    version: str
    rules: str
    sets: dict[str, str]
    agent: str
    cannot: dict[str, str]
    proves: dict[str, list[str]]
    """The runtimes by the fact that was proven in them."""


class AbsentRow(TypedDict):
    """A tool that could not be run."""

    family: str
    why: str


class ToolTable(TypedDict):
    """The file."""

    tools: dict[str, ToolRow]
    absent: dict[str, AbsentRow]


@dataclass(frozen=True, slots=True)
class ToolFindings:
    """What the tests declare, and how they went."""

    rows: Mapping[str, ToolRow]
    absent: Mapping[str, AbsentRow]
    tests: Mapping[str, frozenset[str]]
    """The tests of each tool."""
    outcomes: Mapping[str, str]


def tool_table() -> ToolTable:
    """What is known."""
    found: ToolTable = json.loads(TOOL_TABLE.read_text(encoding="utf-8"))
    return found


def declared_tools() -> ToolFindings:
    """Ask the tests what they declare; none of them runs."""
    return _asked("--collect-only", TOOL_TESTS)


def _asked(*arguments: str) -> ToolFindings:
    """Run pytest with these arguments, and read what it wrote down."""
    found, failures = ask_tests("works_with", "tests.tools.record", "--works-with", *arguments)
    if failures:
        print(failures, file=sys.stderr)
    claims: list[tuple[str, str, str, str]] = [tuple(each) for each in found["claims"]]
    tools: dict[str, ToolRow] = found["tools"]
    rows: dict[str, ToolRow] = {name: {**row, "proves": _proves(name, claims)} for name, row in tools.items()}
    tests = {name: frozenset(test for tool, _, _, test in claims if tool == name) for name in rows}
    return ToolFindings(rows, found["absent"], tests, found["outcomes"])


def _proves(name: str, claims: Iterable[tuple[str, str, str, str]]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for tool, fact, runtime, _ in claims:
        if tool == name:
            found.setdefault(fact, set()).add(runtime)
    return {fact: sorted(runtimes) for fact, runtimes in found.items()}


def renew_tools(names: Sequence[str]) -> Iterator[str]:
    """Renew what is known of these tools, or of all; says of which it could not, and why."""
    known = declared_tools()
    if strangers := set(names) - set(known.rows):
        raise SystemExit(f"works_with: no test declares {', '.join(sorted(strangers))}")
    wanted = names or sorted(known.rows)
    outcomes = _asked(*sorted(set[str]().union(*(known.tests[name] for name in wanted)))).outcomes
    old = tool_table()["tools"] if TOOL_TABLE.exists() else {}
    rows = {name: row for name, row in old.items() if name in known.rows}
    for name in wanted:
        if missing := sorted(test for test in known.tests[name] if outcomes.get(test) != "passed"):
            yield f"{name}: not proven here: {', '.join(missing)}"
        elif not known.rows[name]["version"]:
            yield f"{name}: it tells no version"
        else:
            rows[name] = known.rows[name]
    found: ToolTable = {"tools": dict(sorted(rows.items())), "absent": dict(sorted(known.absent.items()))}
    TOOL_TABLE.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    renew_and_report("works_with", renew_tools)
