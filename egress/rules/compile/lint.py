"""Lint: find rules that are valid but probably not meant.

Findings are warnings, except for secrets at stake: a credential under a wildcard in which anybody can
register names is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from egress.rules.compile.body_rules import check_body_rules
from egress.rules.compile.coverage_index import RuleIndex
from egress.rules.compile.delegation_lint import lint_delegations
from egress.rules.compile.injections import is_same_place
from egress.rules.compile.overlap import rule_covers
from egress.rules.compile.policy_writer import scalar
from egress.rules.compile.public_suffixes import is_over_public_suffix
from egress.rules.compile.ref_write_lint import lint_ref_writes
from egress.rules.compile.service_credential_slots import credential_slots
from egress.rules.compile.unmetered_lint import lint_unmetered
from egress.rules.decide.entry import Entry, Rule
from egress.rules.decide.host_route import denies_everything
from egress.rules.decide.policy import Policy
from egress.rules.language.hosts import HostPattern, candidate_patterns
from egress.rules.language.report import Report, quoted
from egress.types import InjectPlaceholder, Place, Slot

EXPIRY_WARNING_SECONDS = 14 * 86400
MAX_COMPARED_PATHS = 10_000
"""Pairs of paths that are compared to tell which of two rules is the wider one."""


def lint(policy: Policy, report: Report, now: int | None, *, is_whole: bool = True) -> None:
    """Look over a policy, or (`is_whole=False`) over the sound part of a broken policy."""
    for entry in policy.entries.values():
        _public_suffix(entry, report)
        _rules_that_never_act(policy, entry, report)
        check_body_rules(entry, report)
        _clear_text_beside_secrets(policy, entry, report)
        _denies_a_tunnel_cannot_see(policy, entry, report)
        _open_credential_slots(entry, report)
    _bindings_on_public_suffixes(policy, report)
    lint_delegations(policy, report)
    lint_ref_writes(policy, report)
    lint_unmetered(policy.entries.values(), report)
    if is_whole:
        _unused_secrets(policy, report)
    if now is not None:
        _expiring(policy, report, now)


# Wildcards ------------------------------------------------------------------------------------


def _public_suffix(entry: Entry, report: Report) -> None:
    if entry.pattern is None or not is_over_public_suffix(entry.pattern):
        return
    message = f"{quoted(entry.key)} covers names that anybody can register"
    hint = "name the hosts, or a suffix you own"
    if entry.inject:
        report.error(entry.place, f"{message}, and a credential is injected into its requests", hint)
    else:
        report.warning(entry.place, message, hint)


def _bindings_on_public_suffixes(policy: Policy, report: Report) -> None:
    for spec in policy.secrets.values():
        for binding in spec.bindings:
            if is_over_public_suffix(binding.pattern):
                report.error(
                    spec.place,
                    f"{quoted(spec.name)} is bound to {quoted(binding)}, where anybody can register names",
                    "bind it to the hosts that need it",
                )


# Rules that never act -------------------------------------------------------------------------


def _rules_that_never_act(policy: Policy, entry: Entry, report: Report) -> None:
    # A deny wins, so an allow below a deny that is at least as wide can never act.
    denies = RuleIndex(filter(_is_without_doubt, _denies_for(policy, entry)))
    for rule in entry.allow:
        deny = next(denies.covering(rule), None)
        if deny is not None:
            report.warning(
                rule.ref.place,
                f"{rule.ref} can never allow anything: {deny.ref} denies all of it (at {deny.ref.place})",
                "remove the allow rule or the deny rule",
                is_idle=True,
            )
    # Rules with effects of their own are needed even if a wider rule allows the same requests.
    named = _named_elsewhere(policy, entry)
    allows = RuleIndex(entry.allow)
    for rule in entry.allow:
        if rule.ref.id not in named:
            _shadowed(rule, allows, report)
    _denies_that_add_nothing(entry, report)


def _denies_that_add_nothing(entry: Entry, report: Report) -> None:
    denies = RuleIndex(filter(_is_without_doubt, entry.deny))
    earlier: set[int] = set()
    for rule in entry.deny:
        wide = next((each for each in denies.covering(rule) if id(each) in earlier), None)
        earlier.add(id(rule))
        if wide is not None:
            report.warning(
                rule.ref.place,
                f"the deny {rule.ref} adds nothing to {wide.ref} (at {wide.ref.place})",
                "remove it",
                is_idle=True,
            )


def _named_elsewhere(policy: Policy, entry: Entry) -> set[str]:
    """Return the ids named by `for:` or by a profile: such a rule has a purpose of its own."""
    named = {name for item in entry.inject for name in item.rules or ()}
    for profile in (policy.profiles or {}).values():
        named |= profile.rules.get(entry.key, frozenset())
    return named


def _shadowed(narrow: Rule, allows: RuleIndex, report: Report) -> None:
    """Warn about a rule that adds neither requests nor effects to a wider rule."""
    if narrow.widest.body is not None:
        return  # it takes its paths away from every wider rule
    for wide in allows.covering(narrow):
        adds = (
            narrow.handling != wide.handling
            or wide.expires is not None
            or (narrow.widest.websocket and not wide.predicates.websocket)
            or (narrow.widest.encoded_slash and not wide.predicates.encoded_slash)
        )
        if not adds and not _may_cover(narrow, wide):
            report.warning(
                narrow.ref.place,
                f"the rule {narrow.ref} adds nothing: {wide.ref} allows all of it (at {wide.ref.place})",
                "narrow the wider rule, or remove this one",
                is_idle=True,
            )
            return


def _may_cover(narrow: Rule, wide: Rule) -> bool:
    """Tell whether two rules may cover each other; then neither is called the one to remove."""
    paths = [len(rule.widest.paths or ()) for rule in (narrow, wide)]
    if paths[0] * paths[1] > MAX_COMPARED_PATHS:
        return True
    # No value makes a rule with placeholders as wide as its widest reading.
    return narrow.template is None and rule_covers(narrow.predicates, wide.predicates)


def _is_without_doubt(deny: Rule) -> bool:
    predicates = deny.predicates
    return not (predicates.looks_inside or predicates.websocket or predicates.body)


def _denies_for(policy: Policy, entry: Entry) -> Iterator[Rule]:
    """Yield every deny that holds for the whole of an entry."""
    yield from entry.deny
    if entry.pattern is None:
        return
    for rule in policy.deny:
        hosts = rule.predicates.hosts
        if not hosts or any(pattern.covers(entry.pattern) for pattern in hosts):
            yield rule
    for other in _entries_above(policy, entry.pattern):
        if other is not entry:
            yield from other.deny


def _entries_above(policy: Policy, pattern: HostPattern) -> Iterator[Entry]:
    """Yield the entries whose pattern covers all of `pattern`."""
    sample = f"x.{pattern.suffix}" if pattern.stars else pattern.suffix
    for candidate in candidate_patterns(sample):
        entry = policy.entries.get(candidate)
        if entry is not None and candidate.covers(pattern):
            yield entry


# Secrets --------------------------------------------------------------------------------------


def _clear_text_beside_secrets(policy: Policy, entry: Entry, report: Report) -> None:
    if not entry.clear_ports or entry.pattern is None:
        return
    for spec in policy.secrets.values():
        if any(b.pattern.covers(entry.pattern) or entry.pattern.covers(b.pattern) for b in spec.bindings):
            report.warning(
                entry.place,
                f"{quoted(entry.key)} allows clear text, and the secret {quoted(spec.name)} is bound to it",
                "remove `http`: clear text can be read by anybody on the network",
            )


def _open_credential_slots(entry: Entry, report: Report) -> None:
    """Warn where a known service also reads a credential from a slot that the sandbox can fill."""
    known = credential_slots(entry.pattern) if entry.pattern is not None else ()
    if not known:
        return
    for item in entry.inject:
        # A placeholder leaves its own slot to the sandbox, so its other slots add nothing.
        if isinstance(item.injection, InjectPlaceholder) or not _names(item.injection.slots, known):
            continue
        beside = [other for other in entry.inject if other.rules is None or other is item]
        closed = [slot for other in beside for slot in (*other.injection.slots, *other.strip)]
        opened = [str(slot) for slot in known if not _names(closed, [slot])]
        if opened:
            report.warning(
                item.place,
                f"{quoted(entry.key)} also takes a credential from {', '.join(opened)}, "
                "where a sandbox can bring one of its own",
                f"add `strip: [{', '.join(map(scalar, opened))}]` to this item",
            )


def _names(slots: Sequence[Slot], known: Sequence[Slot]) -> bool:
    return any(is_same_place(slot, each) for slot in slots for each in known)


def _unused_secrets(policy: Policy, report: Report) -> None:
    used = {item.injection.secret for entry in policy.entries.values() for item in entry.inject}
    for spec in policy.secrets.values():
        if spec.name not in used and not spec.place.via:
            report.warning(
                spec.place, f"the secret {quoted(spec.name)} is never injected", "remove it, or inject it"
            )


def _denies_a_tunnel_cannot_see(policy: Policy, entry: Entry, report: Report) -> None:
    if entry.intercept:
        return
    for rule in _denies_for(policy, entry):
        if denies_everything(rule.predicates):
            continue  # a closed host needs no reading
        report.warning(
            entry.place,
            f"{rule.ref} cannot be enforced for {quoted(entry.key)}: `intercept: never` reads nothing",
            "intercept the host, or exclude it from the deny rule with `hosts:`",
        )


# Time -----------------------------------------------------------------------------------------


def _expiring(policy: Policy, report: Report, now: int) -> None:
    for what, place, expires in _all_expiries(policy):
        if expires is None or expires > now + EXPIRY_WARNING_SECONDS:
            continue
        day = datetime.fromtimestamp(expires, UTC).strftime("%Y-%m-%d %H:%M UTC")
        if expires <= now:
            report.warning(place, f"{what} has expired ({day})", "remove it, or give it a later date")
        else:
            report.warning(place, f"{what} expires soon ({day})", "give it a later date")


def _all_expiries(policy: Policy) -> Iterator[tuple[str, Place, int | None]]:
    for entry in policy.entries.values():
        yield f"the entry {quoted(entry.key)}", entry.place, entry.expires
        for rule in entry.allow:
            yield f"the rule {rule.ref}", rule.ref.place, rule.expires
    for spec in policy.secrets.values():
        yield f"the secret {quoted(spec.name)}", spec.place, spec.expires
