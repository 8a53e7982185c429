"""The rules at hand beside what they did: hits of each, those that nothing hit, those that can do nothing.

A canary is a deny of its own name, and one that nothing sent is as it should be. What passes unread is
recorded without a rule, for no rule looked at it: such an entry is counted by its hosts.

The files are read anew for each page and never written. A line of the log names a place in a file; that
line is shown only when the file is one of these, for a log could name any file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from egress.errors import EgressError
from egress.policy.bundled_presets import preset_texts
from egress.policy.rule_file_reader import NotTextError, printable_path, read_text
from egress.policy.rule_files import find_rule_files
from egress.review import TrafficTotals
from egress.review.totals import TotalsBuilder
from egress.rules.compile.load import RuleText, load
from egress.rules.compile.policy_writer import canary_fields, flow, rule_fields
from egress.rules.decide.decision import matching_entries
from egress.rules.decide.entry import Entry, Rule
from egress.rules.decide.policy import CanarySpec, Policy
from egress.types import Finding, Place

ZERO_TOTALS = TrafficTotals()
CANARIES = "canaries"
"""The key of their rules in a line."""
CONTEXT_LINES = 3
"""Lines shown before and after the one that decided."""


@dataclass(frozen=True, slots=True)
class RuleBook:
    """The rule files at hand."""

    sources: tuple[RuleText, ...] = ()
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
    numbers: TrafficTotals
    marks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unread: str = ""
    """Of an entry that passes bytes unread: its hosts, as a filter names them."""


def read(files: Sequence[Path], now: int) -> RuleBook:
    """Read them. Never raises for what is wrong with a file."""
    try:
        paths = find_rule_files(files, Path())
        sources = tuple(RuleText(printable_path(path), read_text(path)) for path in paths)
    except NotTextError as error:
        return RuleBook(findings=(error.finding,), problem="a rule file is no text")
    except EgressError as error:
        return RuleBook(problem=f"{error.message}; {error.hint}" if error.hint else error.message)
    loaded = load(sources, preset_texts(), now)
    problem = "" if loaded.policy else "these rules cannot be used"
    return RuleBook(sources, loaded.policy, loaded.findings, problem)


def rows(
    rules: RuleBook, hits: Mapping[str, TrafficTotals], tunnels: Mapping[str, TrafficTotals] | None = None
) -> list[Row]:
    """Every rule at hand with its hits, in the order of the files; then those that only the log knows.

    `hits` are by rule, `tunnels` by host.
    """
    unread = _unread(rules.policy, tunnels or {})
    found = [_row(rule, verdict, rules, hits, unread) for verdict, rule in _each(rules.policy)]
    found += [_planted(canary, hits) for canary in (rules.policy.canaries if rules.policy else ())]
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
    for entry in _entries(policy):
        yield from (("deny", rule) for rule in entry.deny)
        yield from (("allow", rule) for rule in entry.allow)


def _entries(policy: Policy) -> Iterator[Entry]:
    yield from (*policy.entries.values(), *(network.entry for network in policy.networks))


def _unread(
    policy: Policy | None, tunnels: Mapping[str, TrafficTotals]
) -> dict[str, tuple[Entry, TrafficTotals]]:
    """Of each rule that lets bytes pass unread: its entry, and what that carried."""
    if policy is None:
        return {}
    entries = [entry for entry in _entries(policy) if not entry.intercept]
    carried = {entry.key: TotalsBuilder() for entry in entries}
    for host, numbers in tunnels.items():
        chosen = next(iter(matching_entries(policy, host)), None)
        if chosen is not None and chosen.key in carried:
            carried[chosen.key].add(TotalsBuilder(numbers.requests, numbers.denied))
    return {str(rule.ref): (entry, carried[entry.key].numbers()) for entry in entries for rule in entry.allow}


def _row(
    rule: Rule,
    verdict: str,
    rules: RuleBook,
    hits: Mapping[str, TrafficTotals],
    unread: Mapping[str, tuple[Entry, TrafficTotals]],
) -> Row:
    name = str(rule.ref)
    entry, carried = unread.get(name, (None, ZERO_TOTALS))
    numbers = hits.get(name, carried)
    about = [finding for finding in rules.findings if finding.place == rule.ref.place]
    notes = [finding.message for finding in about]
    marks = ["unused"] if not numbers.requests else []
    if any(finding.is_idle for finding in about):
        marks.append("shadowed")
    elif notes:
        marks.append("doubtful")
    if entry is not None:
        notes.append("bytes pass unread here, and no rule looks at them: what is counted are the tunnels")
    # A network is no name that a filter could look for.
    hosts = entry.key if entry is not None and entry.pattern is not None else ""
    fields = {name: value for name, value in rule_fields(rule).items() if name != "id"}
    text = flow(fields) if fields else "everything"
    return Row(name, verdict, text, _short(rule.ref.place), numbers, tuple(marks), tuple(notes), hosts)


def _planted(canary: CanarySpec, hits: Mapping[str, TrafficTotals]) -> Row:
    name = f"{CANARIES}#{canary.name}"
    text = flow(canary_fields(canary))
    return Row(name, "deny", text, _short(canary.place), hits.get(name, ZERO_TOTALS))


def _short(place: Place) -> str:
    return f"{place.file}:{place.line}"


def around(rules: RuleBook, place: str) -> list[tuple[int, str, bool]]:
    """The lines around a place `file:line` in a file at hand: number, text, and whether it is the one."""
    file, _, number = place.rpartition(":")
    text = _text(rules, file)
    if text is None or not number.isascii() or not number.isdecimal() or len(number) > 7:
        return []
    lines, at = text.splitlines(), int(number)
    if not 1 <= at <= len(lines):
        return []
    first = max(at - CONTEXT_LINES, 1)
    return [(n, lines[n - 1], n == at) for n in range(first, min(at + CONTEXT_LINES, len(lines)) + 1)]


def _text(rules: RuleBook, file: str) -> str | None:
    """The text of a file at hand. The proxy may have run in another folder, and have named it from there."""
    found = [source.text for source in rules.sources if source.name == file]
    found = found or [source.text for source in rules.sources if _is_same(source.name, file)]
    return found[0] if len(found) == 1 else None


def _is_same(one: str, other: str) -> bool:
    """Whether one name of a file ends with the other."""
    parts, others = PurePath(one).parts, PurePath(other).parts
    least = min(len(parts), len(others))
    return least > 0 and parts[-least:] == others[-least:]
