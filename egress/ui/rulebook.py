"""The current rules with their hits, and marks for unused and shadowed rules.

A canary counts as a deny rule of its own; no hits are the normal case. Tunnels are recorded without a rule,
because no rule read them: such an entry is counted by its hosts.

The rule files are read for each page and never written. A log line names a place in a file. The page shows
that place only if the file is one of the rule files, because a forged log could name any file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from egress.errors import EgressError
from egress.policy.bundled_presets import preset_texts
from egress.policy.rule_file_reader import NotTextError
from egress.policy.rule_files import read_rule_texts
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
"""The part before `#` in the rule names of canaries."""
CONTEXT_LINES = 3
"""Lines shown before and after the rule."""


@dataclass(frozen=True, slots=True)
class RuleBook:
    """The current rule files."""

    sources: tuple[RuleText, ...] = ()
    policy: Policy | None = None
    findings: tuple[Finding, ...] = ()
    problem: str = ""
    """The reason why no policy is loaded; empty if one is."""


@dataclass(frozen=True, slots=True)
class Row:
    """A rule with its numbers."""

    name: str
    verdict: str
    text: str
    place: str
    numbers: TrafficTotals
    marks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unread: str = ""
    """For an entry with tunnels: its hosts, as a filter."""
    via: str = ""
    """The line of the preset that the rule comes from, such as `preset github:122`."""
    reason: str = ""
    """Why the rule is there, in the words of its author."""

    @property
    def key(self) -> str:
        """The entry of the rule: a host, a network, or `canaries`."""
        return self.name.rpartition("#")[0] or self.name


@dataclass(frozen=True, slots=True)
class EntryRules:
    """The rules of one entry."""

    key: str
    rows: tuple[Row, ...]
    is_open: bool

    @property
    def hits(self) -> int:
        return sum(row.numbers.requests for row in self.rows)

    @property
    def denied(self) -> int:
        return sum(row.numbers.denied for row in self.rows)

    @property
    def presets(self) -> list[str]:
        """The presets that some of the rules come from."""
        return list(dict.fromkeys(row.via.rpartition(":")[0] for row in self.rows if row.via))


def read(files: Sequence[Path], now: int) -> RuleBook:
    """Read the rule files. A faulty file is reported in the result and never raises."""
    try:
        sources = read_rule_texts(files)
    # A faulty rule file must not hide the log, so the page shows the reason instead.
    except NotTextError as error:
        return RuleBook(findings=(error.finding,), problem="a rule file is not valid text")
    except EgressError as error:
        return RuleBook(problem=f"{error.message}; {error.hint}" if error.hint else error.message)
    loaded = load(sources, preset_texts(), now)
    problem = "" if loaded.policy else "the rule files have errors"
    return RuleBook(sources, loaded.policy, loaded.findings, problem)


def rows(
    rules: RuleBook, hits: Mapping[str, TrafficTotals], tunnels: Mapping[str, TrafficTotals] | None = None
) -> list[Row]:
    """Return every current rule with its hits, in file order; deleted rules that the log names come last.

    `hits` are by rule, `tunnels` by host.
    """
    unread = _unread(rules.policy, tunnels or {})
    found = [_row(rule, verdict, rules, hits, unread) for verdict, rule in _each(rules.policy)]
    found += [_planted(canary, hits) for canary in (rules.policy.canaries if rules.policy else ())]
    # Deleted rules stay in the list, so that their hits do not vanish from the totals.
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
    """Return, for each rule with tunnels, its entry and the totals of the tunnels."""
    if policy is None:
        return {}
    entries = [entry for entry in _entries(policy) if not entry.intercept]
    carried = {entry.key: TotalsBuilder() for entry in entries}
    for host, numbers in tunnels.items():
        chosen = next(iter(matching_entries(policy, host)), None)
        if chosen is not None and chosen.key in carried:
            carried[chosen.key].add(TotalsBuilder(numbers.requests, numbers.denied, numbers.cut))
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
        notes.append("this entry tunnels traffic without reading it: hits are tunnels")
    # A filter cannot name a network.
    hosts = entry.key if entry is not None and entry.pattern is not None else ""
    fields = {name: value for name, value in rule_fields(rule).items() if name != "id"}
    text = flow(fields) if fields else "everything"
    place = rule.ref.place
    return Row(
        *(name, verdict, text, _short(place), numbers, tuple(marks), tuple(notes), hosts),
        via=place.via,
        reason=rule.ref.reason,
    )


def _planted(canary: CanarySpec, hits: Mapping[str, TrafficTotals]) -> Row:
    name = f"{CANARIES}#{canary.name}"
    text = flow(canary_fields(canary))
    return Row(name, "deny", text, _short(canary.place), hits.get(name, ZERO_TOTALS))


def groups(found: Sequence[Row], find: str, *, by_hits: bool) -> list[EntryRules]:
    """Group rules by their entry. `find` keeps the rules that have this text in anything that is shown."""
    by_key: dict[str, list[Row]] = {}
    for row in found:
        if find.lower() in f"{row.name} {row.text} {row.via} {row.reason} {row.place}".lower():
            by_key.setdefault(row.key, []).append(row)
    made = []
    for key, rows in by_key.items():
        if by_hits:
            rows.sort(key=lambda row: -row.numbers.requests)
        # Rules of a preset are not the reader's own, and there are many: they stay folded until asked for.
        is_open = bool(find) or not all(row.via for row in rows)
        made.append(EntryRules(key, tuple(rows), is_open))
    if by_hits:
        made.sort(key=lambda group: -group.hits)
    return made


def _short(place: Place) -> str:
    return f"{place.file}:{place.line}"


type Excerpt = tuple[str, list[tuple[int, str, bool]]]
"""A place, and the lines around it: number, text, True for the line itself."""


def sources(rules: RuleBook, place: str, name: str) -> list[Excerpt]:
    """Return the lines that decided: those of the rule file, and those of the preset that they take in."""
    ref = next((rule.ref for _, rule in _each(rules.policy) if str(rule.ref) == name), None)
    # The preset of another rule at that place would explain the wrong denial.
    via = ref.place.via if ref is not None and _is_at(ref.place, place) else ""
    found = [(place, around(rules, place)), (via, _around(_preset_text(via), via))]
    return [(at, lines) for at, lines in found if lines]


def _is_at(found: Place, place: str) -> bool:
    file, _, number = place.rpartition(":")
    return number == str(found.line) and _is_same(found.file, file)


def reason_of(rules: RuleBook, name: str) -> str:
    """Return the reason that the author of a rule gave; empty without one."""
    return next((rule.ref.reason for _, rule in _each(rules.policy) if str(rule.ref) == name), "")


def _preset_text(via: str) -> str | None:
    return preset_texts().get(via.rpartition(":")[0].removeprefix("preset "))


def around(rules: RuleBook, place: str) -> list[tuple[int, str, bool]]:
    """Return the lines around `file:line` in a current rule file."""
    return _around(_text(rules, place.rpartition(":")[0]), place)


def _around(text: str | None, place: str) -> list[tuple[int, str, bool]]:
    number = place.rpartition(":")[2]
    # A log line or an address may name any place, so the number is bounded before `int`.
    if text is None or not number.isascii() or not number.isdecimal() or len(number) > 7:
        return []
    lines, at = text.splitlines(), int(number)
    if not 1 <= at <= len(lines):
        return []
    first = max(at - CONTEXT_LINES, 1)
    return [(n, lines[n - 1], n == at) for n in range(first, min(at + CONTEXT_LINES, len(lines)) + 1)]


def _text(rules: RuleBook, file: str) -> str | None:
    """Return the text of a rule file; None if ambiguous.

    The proxy may have named the file relative to another folder, so a matching end of the path is enough.
    """
    # An ambiguous path shows no text, rather than that of the wrong file.
    found = [source.text for source in rules.sources if source.name == file]
    found = found or [source.text for source in rules.sources if _is_same(source.name, file)]
    return found[0] if len(found) == 1 else None


def _is_same(one: str, other: str) -> bool:
    """True if one path ends with the other."""
    parts, others = PurePath(one).parts, PurePath(other).parts
    least = min(len(parts), len(others))
    return least > 0 and parts[-least:] == others[-least:]
