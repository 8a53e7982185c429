"""The smallest rule change that allows a denied request, tested before it is shown.

The request is decided again with the current rules. Each reason for a denial has at most one fix: the
narrowest rule, entry or port. The fix is written into a copy of the file's text, at the place where it
belongs, and the copy is loaded: so a suggestion is proven as it will be after pasting. The request is decided
again, until it passes or no fix is left. Where no place in the text is certain, there is no suggestion.

A deny is never undone. Internal addresses and metadata services get no suggestion. A denial without a rule
gets none either: above all a canary, but also a limit, an unverified upstream or an override in a header. The
log does not hold the cause of such a denial, so deciding the line again would give a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from egress.errors import CODES
from egress.review.drafting.ambiguity import read_both_ways
from egress.review.drafting.observation import Observation
from egress.review.drafting.path_identifiers import segment_shape
from egress.review.drafting.placed_edits import (
    Edit,
    item_edit,
    key_edit,
    listing_edit,
    word_edit,
    written_entry,
)
from egress.review.drafting.preset_offer import PresetOffer, offer_preset
from egress.review.drafting.replay import head_of, recalled
from egress.review.drafting.risks import opened, refusal, risks
from egress.review.drafting.rule_file_edit import apply_edit
from egress.review.drafting.unfixable import unfixable_reason
from egress.rules.compile.load import RuleText, load
from egress.rules.compile.policy_writer import Fields, Json, flow, secret_fields
from egress.rules.compile.single_rules import IMPLICIT_RULE_ID
from egress.rules.decide import paths
from egress.rules.decide.decision import decide, decide_host, matching_entries
from egress.rules.decide.entry import Entry
from egress.rules.decide.globs import GlobError, path_glob
from egress.rules.decide.policy import Binding, Policy
from egress.rules.language.hosts import is_address
from egress.types import Decision, Head, HostDecision, Identity

MAX_STEPS = 5


@dataclass(frozen=True, slots=True)
class SuggestedStep:
    """A change: its place, in words, and the YAML to write."""

    where: str
    yaml: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A rule change that allows a request, or in `refusal` the reason why there is none."""

    code: str
    """The code of the denial; empty if the current rules allow the request."""
    refusal: str = ""
    steps: tuple[SuggestedStep, ...] = ()
    risks: tuple[str, ...] = ()
    outcome: str = ""
    """The verdict after the change."""
    preset: PresetOffer | None = None
    """A preset in place of the steps, if a host is new and one seems to be meant for it."""


class _NoFixError(Exception):
    """No change can be suggested; the message gives the reason."""


@dataclass(slots=True)
class _Work:
    """The state of the search: the request, and the rules with the changes so far."""

    seen: Observation
    identity: Identity
    now: int
    sources: list[RuleText]
    presets: Mapping[str, str]
    policy: Policy
    steps: list[SuggestedStep] = field(default_factory=list)
    opened: dict[str, str] = field(default_factory=dict)
    """Entries that are opened as a whole, by key, with the profile or port."""
    is_wider: bool = False
    """True if a path is written with `*` and matches other paths too."""

    @property
    def head(self) -> Head:
        return head_of(self.seen)

    def verdict(self) -> Decision | HostDecision:
        return self.verdict_by(self.policy)

    def verdict_by(self, policy: Policy) -> Decision | HostDecision:
        one = self.seen
        if one.kind == "request":
            return decide(policy, self.identity, self.head, self.now, recalled(one))
        return decide_host(policy, self.identity, one.host, one.port or None, self.now, scheme=one.scheme)


def suggest(
    one: Observation,
    address: str,
    sources: Sequence[RuleText],
    presets: Mapping[str, str],
    now: int,
) -> Suggestion:
    """Suggest a rule change that allows a denied request. `address` is the dialled address, if any.

    `sources` are the rule files at hand, which must be sound. No file is written.
    """
    policy = load(sources, presets, now).policy
    if policy is None:
        return Suggestion("", "the current rules do not load: run `egress check`")
    work = _Work(one, Identity("suggest", one.profile), now, list(sources), presets, policy)
    verdict = work.verdict()
    # Fixed refusals come first: no rule change may even be tried for them.
    if not one.passed and not one.is_canary and (never := refusal(one.host, address, one.code)):
        return Suggestion(verdict.code, never)
    if why := unfixable_reason(one):
        also = "" if one.passed or verdict.allowed else f". The current rules deny it too ({verdict.code})"
        return Suggestion(one.code or verdict.code, why + also)
    if one.passed:
        return Suggestion("", "it was allowed")
    if verdict.allowed:
        return Suggestion("", _allowed(work, policy))
    if one.is_cut:
        return Suggestion(verdict.code, "the log holds only a part of its path")
    try:
        final = _changed(work)
    except _NoFixError as error:
        return Suggestion(verdict.code, str(error))
    return Suggestion(
        verdict.code,
        "",
        tuple(work.steps),
        _risks(work, policy, final),
        f"allow {final.rule or one.host}" if isinstance(final, Decision) else f"allow {one.host}",
        offer_preset(one, sources, presets, now, work.verdict_by) if verdict.code == "host.unknown" else None,
    )


def _allowed(work: _Work, policy: Policy) -> str:
    """Explain that the current rules allow the request, as far as the log shows."""
    both = read_both_ways(policy)
    if isinstance(work.verdict(), Decision) and not both.is_certain:
        strict = decide(both.strict, work.identity, work.head, work.now)
        if not strict.allowed:
            return (
                "the current rules allow it, unless its query, headers or media type are denied:"
                f" these are not logged, and {strict.rule or 'a rule'} checks them"
            )
    return "the current rules allow it"


def _risks(work: _Work, before: Policy, final: Decision | HostDecision) -> tuple[str, ...]:
    return (*_opened(work), *_risks_of_one(work, before, final))


def _opened(work: _Work) -> Iterator[str]:
    """List the risks of entries that the change opens as a whole."""
    for entry in matching_entries(work.policy, work.seen.host):
        if entry.key in work.opened:
            yield from opened(entry, work.opened[entry.key])


def _risks_of_one(work: _Work, before: Policy, final: Decision | HostDecision) -> tuple[str, ...]:
    if not isinstance(final, Decision):
        return (
            "only a connection was refused: the requests on it are unknown",
            *risks(work.policy, replace_method(work.head), Decision(final.verdict, final.code)),
        )
    # A certain verdict needs both readings: a rule on the query may decide differently than this suggestion.
    found = risks(work.policy, work.head, final)
    if work.is_wider:
        found = ("wider than the request: `*` in the path matches any name", *found)
    both = read_both_ways(before)
    if not both.is_certain and decide(both.lenient, work.identity, work.head, work.now).allowed:
        found = (
            "a current rule allows it with another query, header or media type: consider that instead",
            *found,
        )
    if (
        not both.is_certain
        and not decide(read_both_ways(work.policy).strict, work.identity, work.head, work.now).allowed
    ):
        found = (*found, "a deny on the query, headers or media type may still block it")
    return found


def replace_method(head: Head) -> Head:
    """Return a head for a connection without a request: GET is the least risky method."""
    return replace(head, method="GET")


def _changed(work: _Work) -> Decision | HostDecision:
    for _ in range(MAX_STEPS):
        verdict = work.verdict()
        # An observed verdict is no permission: without `mode: observe` the request would be denied.
        if verdict.allowed and not verdict.observed:
            return verdict
        fix = _FIXES.get(verdict.code)
        if fix is None:
            raise _NoFixError(_no_fix_reason(verdict))
        fix(work)
    raise _NoFixError("too many changes would be needed")


def _no_fix_reason(verdict: Decision | HostDecision) -> str:
    if verdict.rule is not None and verdict.code == "rule.denied":
        reason = f"{verdict.rule} denies it ({verdict.rule.place}), and a deny wins over every allow"
        # Lifting a deny of a preset is left to a person, who is told that it can be done.
        return f"{reason}; `without:` beside the preset lifts it" if verdict.rule.place.via else reason
    code = CODES.get(verdict.code)
    message = code.message.removesuffix(".") if code else verdict.code
    return f"no rule can allow it: {message[:1].lower()}{message[1:]}"


# The changes ----------------------------------------------------------------------------------


def _new_host(work: _Work) -> None:
    one = work.seen
    fields: Fields = {}
    if one.scheme == "http":
        fields = {"ports": [], "http": [one.port]}
    elif one.port not in (0, 443):
        fields = {"ports": [one.port]}
    if one.kind == "request":
        rule = _rule_fields(work, "new")
        fields |= {"allow": [rule]} if one.is_websocket else _without_id(rule)
    else:
        fields |= {"methods": ["GET", "HEAD"]}
    _apply(work, ("under `hosts`", key_edit(("hosts",), one.host, fields)))


def _new_network(work: _Work) -> None:
    one = work.seen
    if not is_address(one.host):
        raise _NoFixError("this spelling of an address is never allowed: use a name")
    fields: Fields = {"cidr": f"{one.host}/{128 if ':' in one.host else 32}"}
    if one.scheme == "http":
        fields |= {"ports": [], "http": [one.port]}
    elif one.port != 443:
        fields |= {"ports": [one.port]}
    if one.kind != "request":
        raise _NoFixError("only a connection was refused: the requests on it are unknown")
    fields |= {"allow": [_rule_fields(work, "new")]}
    _apply(work, ("under `networks`", item_edit(("networks",), fields)))


def _new_rule(work: _Work) -> None:
    entry = _entry(work)
    if entry.expires is not None and work.now >= entry.expires:
        raise _NoFixError(f"the entry has expired ({entry.place}): give it a later date")
    if work.seen.kind != "request":
        raise _NoFixError(
            f"the entry is closed ({entry.place}), and the requests on the connection are unknown"
        )
    if not entry.intercept:
        raise _NoFixError(f"the entry tunnels traffic unread, so its rules do not apply ({entry.place})")
    fields = _rule_fields(work, _free_id(entry))
    where = f"under {flow(entry.key)}"
    path, own = written_entry(work.sources, entry)
    if own is not None and isinstance(own.get("allow"), list):
        _apply(work, (f"{where}, in `allow`", item_edit((*path, "allow"), fields)))
    elif own is not None and _is_own_rule(entry):
        # Its predicates become a rule beside the new one: on the entry they would exclude a list.
        _apply(work, (f"{where} (its predicates become the rule `host`)", listing_edit(path, own, fields)))
    else:
        _extend(work, entry, where, "allow", [fields])


def _is_own_rule(entry: Entry) -> bool:
    """Report whether the file writes the rule on the entry itself; beside a preset, it may write none."""
    return any(rule.ref.id == IMPLICIT_RULE_ID and not rule.ref.place.via for rule in entry.allow)


def _extend(work: _Work, entry: Entry, where: str, key: str, value: Json, *more: tuple[str, Edit]) -> None:
    """Add a key to the entry of the file, or an entry with it beside that of a preset."""
    path, own = written_entry(work.sources, entry)
    edit = key_edit(("hosts",), entry.key, {key: value}) if own is None else key_edit(path, key, value)
    _apply(work, (where, edit), *more)


def _new_port(work: _Work) -> None:
    entry, port = _entry(work), work.seen.port
    _open(work, entry, f"on port {port}")
    # A credential must never travel in clear text, so the port stays closed for such an entry.
    if work.seen.scheme != "https" and entry.inject:
        raise _NoFixError("a host that gets a credential is never opened for clear text: use https")
    key, ports = ("ports", entry.ports) if work.seen.scheme == "https" else ("http", entry.clear_ports)
    where = f"under {flow(entry.key)}"
    bindings = list(_bindings(work, entry)) if key == "ports" else []
    path, own = written_entry(work.sources, entry)
    if own is not None and isinstance(own.get(key), list):
        _apply(work, (f"{where}, in `{key}`", item_edit((*path, key), port)), *bindings)
    elif own is not None and own.get(key) is True:
        _apply(work, (where, word_edit((*path, key), "true", list[Json](sorted({*ports, port})))))
    else:
        _extend(work, entry, where, key, list[Json](sorted({*ports, port})), *bindings)


def _bindings(work: _Work, entry: Entry) -> Iterator[tuple[str, Edit]]:
    """Bind the secrets of the entry to the new port too; the rules would not load otherwise."""
    port = work.seen.port
    if entry.pattern is None:
        return
    for name in dict.fromkeys(item.injection.secret for item in entry.inject):
        spec = work.policy.secrets[name]
        if spec.is_bound_to_all(entry.pattern, port):
            continue
        binding = Binding(entry.pattern, port)
        if spec.place.via:
            # The secret of a preset has no text to edit: one of the same name stands in its place.
            bound = replace(spec, bindings=(*spec.bindings, binding))
            yield "under `secrets`", key_edit(("secrets",), name, secret_fields(bound))
        else:
            yield f"in the secret {name}", item_edit(("secrets", name, "hosts"), str(binding))


def _into_profile(work: _Work) -> None:
    entry = _entry(work)
    name = work.identity.profile or "default"
    _open(work, entry, f"to the profile {name}")
    _apply(work, (f"in the profile {name}", item_edit(("profiles", name, "hosts"), entry.key)))


def _open(work: _Work, entry: Entry, where: str) -> None:
    """Record that a whole entry is opened."""
    before = work.opened.get(entry.key)
    work.opened[entry.key] = f"{before} and {where}" if before else where


def _escaped_slash(work: _Work) -> None:
    path = work.seen.path
    try:
        is_fit = paths.canonical_path(path, strict=True, encoded_slash=True) == path and "%2F" in path
    except paths.PathError:
        is_fit = False
    if not is_fit or not matching_entries(work.policy, work.seen.host):
        raise _NoFixError("servers interpret this path differently: send it in canonical form")
    _new_rule(work)


_FIXES: dict[str, Callable[[_Work], None]] = {
    "host.unknown": _new_host,
    "host.literal": _new_network,
    "host.port": _new_port,
    "host.cleartext": _new_port,
    "host.closed": _new_rule,
    "observed": _new_rule,
    "rule.none": _new_rule,
    "rule.websocket": _new_rule,
    "profile.excluded": _into_profile,
    "path.ambiguous": _escaped_slash,
}


# Applying -------------------------------------------------------------------------------------


def _apply(work: _Work, *edits: tuple[str, Edit]) -> None:
    """Apply edits that belong together. The files must load with all of them, or there is no suggestion."""
    sources, steps = work.sources, []
    for where, edit in edits:
        made = edit(sources)
        if made is None:
            raise _NoFixError(f"no place in the files is certain: write it by hand {where}")
        sources = apply_edit(sources, made)
        steps.append(SuggestedStep(f"{made.where}, {where}", made.lines))
    # The copies are loaded as a whole, because an edit can also break another rule.
    policy = load(sources, work.presets, work.now).policy
    if policy is None:
        where = edits[0][0]
        raise _NoFixError(f"with a change {where} the files would not load: a person has to look at them")
    work.sources, work.policy = list(sources), policy
    work.steps += steps


def _entry(work: _Work) -> Entry:
    found = matching_entries(work.policy, work.seen.host)
    if not found:
        raise _NoFixError("no entry matches this host")
    return found[0]


# The rule -------------------------------------------------------------------------------------


def _rule_fields(work: _Work, name: str) -> Fields:
    fields: Fields = {"id": name, "methods": [work.seen.method], "paths": [_pattern(work)]}
    if work.seen.is_websocket:
        fields["websocket"] = True
    if "%2F" in work.seen.path:
        fields["encoded_slash"] = "data"
    return fields


def _pattern(work: _Work) -> str:
    """Return a pattern for exactly this path; segments that must not be written become `*`."""
    segments = []
    for segment in work.seen.path.split("/"):
        shape = segment_shape(segment) if segment else None
        segments.append(shape.pattern if shape is not None and shape.must else segment)
    text = "/".join(segments)
    work.is_wider |= "*" in text
    try:
        return path_glob(text, encoded_slash=True).text
    except GlobError:
        raise _NoFixError("no pattern in `paths` matches exactly this path") from None


def _free_id(entry: Entry) -> str:
    taken = {rule.ref.id for rule in (*entry.allow, *entry.deny)}
    number = 1
    while (name := f"new-{number}" if number > 1 else "new") in taken:
        number += 1
    return name


def _without_id(fields: Fields) -> Fields:
    return {name: value for name, value in fields.items() if name != "id"}
