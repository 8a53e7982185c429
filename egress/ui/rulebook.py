"""The rules at hand beside what they did: hits of each, those that nothing hit, those that can do nothing.

The files are read anew for each page and never written. A line of the log names a place in a file; that
line is shown only when the file is one of these, for a log could name any file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from egress.errors import EgressError
from egress.policy.files import find_rule_files
from egress.policy.shipped import preset_texts
from egress.policy.text import NotTextError, read_text, shown
from egress.review import Numbers
from egress.rules.entry import Rule
from egress.rules.load import Source, load
from egress.rules.policy import Policy
from egress.rules.show import flow, rule_fields
from egress.types import Finding, Place

NONE = Numbers()
AROUND = 3
"""Lines shown before and after the one that decided."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rule files at hand."""

    sources: tuple[Source, ...] = ()
    policy: Policy | None = None
    findings: tuple[Finding, ...] = ()
    problem: str = ""
    """Why there are none; empty when there are."""


@dataclass(frozen=True, slots=True)
class Row:
    """One rule, and what it did."""

    name: str
    verdict: str
    text: str
    place: str
    numbers: Numbers
    marks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read(files: Sequence[Path], now: int) -> Rules:
    """Read them. Never raises for what is wrong with a file."""
    try:
        paths = find_rule_files(files, Path())
        sources = tuple(Source(shown(path), read_text(path)) for path in paths)
    except NotTextError as error:
        return Rules(findings=(error.finding,), problem="a rule file is no text")
    except EgressError as error:
        return Rules(problem=f"{error.message}; {error.hint}" if error.hint else error.message)
    loaded = load(sources, preset_texts(), now)
    problem = "" if loaded.policy else "these rules cannot be used"
    return Rules(sources, loaded.policy, loaded.findings, problem)


def rows(rules: Rules, hits: Mapping[str, Numbers]) -> list[Row]:
    """Every rule at hand with its hits, in the order of the files; then those that only the log knows."""
    found = [_row(rule, verdict, rules, hits) for verdict, rule in _each(rules.policy)]
    known = {row.name for row in found}
    gone = (
        Row(name, "", "", "", numbers, ("not in the files",))
        for name, numbers in hits.items()
        if name and name not in known
    )
    return [*found, *gone]


def _each(policy: Policy | None) -> Iterator[tuple[str, Rule]]:
    if policy is None:
        return
    yield from (("deny", rule) for rule in policy.deny)
    for entry in (*policy.entries.values(), *(network.entry for network in policy.networks)):
        yield from (("deny", rule) for rule in entry.deny)
        yield from (("allow", rule) for rule in entry.allow)


def _row(rule: Rule, verdict: str, rules: Rules, hits: Mapping[str, Numbers]) -> Row:
    name = str(rule.ref)
    numbers = hits.get(name, NONE)
    notes = tuple(finding.message for finding in rules.findings if finding.place == rule.ref.place)
    marks = ["unused"] if not numbers.requests else []
    if any("adds nothing" in note or "can never" in note for note in notes):
        marks.append("shadowed")
    elif notes:
        marks.append("doubtful")
    fields = {name: value for name, value in rule_fields(rule).items() if name != "id"}
    text = flow(fields) if fields else "everything"
    return Row(name, verdict, text, _short(rule.ref.place), numbers, tuple(marks), notes)


def _short(place: Place) -> str:
    return f"{place.file}:{place.line}"


def around(rules: Rules, place: str) -> list[tuple[int, str, bool]]:
    """The lines around a place `file:line` in a file at hand: number, text, and whether it is the one."""
    file, _, number = place.rpartition(":")
    text = _text(rules, file)
    if text is None or not number.isascii() or not number.isdecimal() or len(number) > 7:
        return []
    lines, at = text.splitlines(), int(number)
    if not 1 <= at <= len(lines):
        return []
    first = max(at - AROUND, 1)
    return [(n, lines[n - 1], n == at) for n in range(first, min(at + AROUND, len(lines)) + 1)]


def _text(rules: Rules, file: str) -> str | None:
    """The text of a file at hand. The proxy may have run in another folder, and have named it from there."""
    found = [source.text for source in rules.sources if source.name == file]
    found = found or [source.text for source in rules.sources if _is_same(source.name, file)]
    return found[0] if len(found) == 1 else None


def _is_same(one: str, other: str) -> bool:
    """Whether one name of a file ends with the other."""
    parts, others = PurePath(one).parts, PurePath(other).parts
    least = min(len(parts), len(others))
    return least > 0 and parts[-least:] == others[-least:]
