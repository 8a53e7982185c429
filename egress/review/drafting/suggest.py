"""The smallest rule change that allows a denied request, tested before it is shown.

The request is decided again with the current rules. Each reason for a denial has at most one fix: the
narrowest rule, entry or port. The fix is applied and the request decided again, until it passes or no fix is
left. If the place in a file is certain, the text of the file is changed and loaded. Otherwise the loaded
rules are changed, and the new entry is printed.

A deny is never undone. Internal addresses and metadata services get no suggestion. A denial without a rule
gets none either: above all a canary, but also a limit, an unverified upstream or an override in a header. The
log does not hold the cause of such a denial, so deciding the line again would give a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from egress.errors import CODES
from egress.review.drafting import rule_file_edit
from egress.review.drafting.ambiguity import read_both_ways
from egress.review.drafting.observation import Observation
from egress.review.drafting.path_identifiers import segment_shape
from egress.review.drafting.replay import head_of
from egress.review.drafting.risks import opened, refusal, risks
from egress.review.drafting.rule_file_edit import RuleFileEdit
from egress.review.drafting.unfixable import unfixable_reason
from egress.rules.compile.load import RuleText, load
from egress.rules.compile.policy_writer import Fields, as_text, flow, profile_fields, scalar, secret_fields
from egress.rules.decide import paths
from egress.rules.decide.decision import decide, decide_host, matching_entries
from egress.rules.decide.entry import Entry, Rule
from egress.rules.decide.globs import GlobError, path_glob
from egress.rules.decide.policy import Binding, Policy, Profile
from egress.rules.decide.predicates import Predicates
from egress.rules.language.hosts import is_address
from egress.types import Decision, Head, HostDecision, Identity, RuleRef

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
    is_text: bool = True
    """True while `sources` and `policy` agree."""
    is_wider: bool = False
    """True if a path is written with `*` and matches other paths too."""

    @property
    def head(self) -> Head:
        return head_of(self.seen)

    def verdict(self) -> Decision | HostDecision:
        one = self.seen
        if one.kind == "request":
            return decide(self.policy, self.identity, self.head, self.now)
        return decide_host(
            self.policy, self.identity, one.host, one.port or None, self.now, scheme=one.scheme
        )


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
        return f"{verdict.rule} denies it ({verdict.rule.place}), and a deny wins over every allow"
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
    _add(work, "hosts", f"{scalar(one.host)}: {_braces(fields)}")


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
    _add(work, "networks", f"- {_braces(fields)}")


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
    # An entry from a preset has no text to edit here: a new entry extends it.
    if entry.place.via:
        _add(work, "hosts", f"{scalar(entry.key)}: {_braces({'allow': [fields]})}")
        return
    # An edit before an existing item of the entry is certain. Without one the loaded entry is changed.
    for rule in entry.allow:
        edit = (
            work.is_text
            and not rule.ref.place.via
            and rule_file_edit.before_item(
                work.sources, rule.ref.place.file, rule.ref.place.line, _braces(fields)
            )
        )
        if edit and _try(work, edit, f"under {flow(entry.key)}, in `allow`"):
            return
    predicates = Predicates(
        methods=frozenset({work.seen.method}),
        paths=(path_glob(_pattern(work), encoded_slash=True),),
        websocket=work.seen.is_websocket,
        encoded_slash="encoded_slash" in fields,
    )
    rule = Rule(RuleRef(entry.key, _free_id(entry), entry.place), predicates)
    _replace_entry(work, entry, replace(entry, allow=(*entry.allow, rule), is_whole=False))


def _new_port(work: _Work) -> None:
    entry = _entry(work)
    _open(work, entry, f"on port {work.seen.port}")
    if work.seen.scheme == "https":
        _replace_entry(work, entry, replace(entry, ports=entry.ports | {work.seen.port}))
        _bind(work, entry)
        return
    # A credential must never travel in clear text, so the port stays closed for such an entry.
    if entry.inject:
        raise _NoFixError("a host that gets a credential is never opened for clear text: use https")
    _replace_entry(work, entry, replace(entry, clear_ports=entry.clear_ports | {work.seen.port}))


def _bind(work: _Work, entry: Entry) -> None:
    """Bind the secrets of the entry to the new port too; the rules would not load otherwise."""
    port = work.seen.port
    if entry.pattern is None:
        return
    for name in dict.fromkeys(item.injection.secret for item in entry.inject):
        spec = work.policy.secrets[name]
        if spec.is_bound_to_all(entry.pattern, port):
            continue
        bound = replace(spec, bindings=(*spec.bindings, Binding(entry.pattern, port)))
        work.policy = replace(work.policy, secrets={**work.policy.secrets, name: bound})
        line = f"{scalar(name)}: {_braces(secret_fields(bound))}"
        work.steps.append(SuggestedStep(f"in place of the secret at {spec.place}", (line,)))


def _into_profile(work: _Work) -> None:
    entry = _entry(work)
    profiles = dict(work.policy.profiles or {})
    name = work.identity.profile or "default"
    old = profiles[name]
    _open(work, entry, f"to the profile {name}")
    profiles[name] = Profile(old.name, old.place, old.keys | {entry.key}, old.rules)
    work.policy = replace(work.policy, profiles=profiles, routes={}, shared_routes={})
    work.is_text = False
    line = f"{scalar(name)}: {_braces(profile_fields(profiles[name]))}"
    work.steps.append(SuggestedStep(f"in place of the profile at {old.place}", (line,)))


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


def _add(work: _Work, section: str, line: str) -> None:
    """Add an item to a section of the rule files."""
    edit = rule_file_edit.below_section(work.sources, section, [line]) if work.is_text else None
    if edit is None or not _try(work, edit, f"under `{section}`"):
        raise _NoFixError(f"no place in the files is certain; write this under `{section}`: {line}")


def _try(work: _Work, edit: RuleFileEdit, where: str) -> bool:
    """Apply an edit. Return False and change nothing if the result does not load."""
    # The copy is loaded as a whole, because an edit can also break another rule.
    sources = rule_file_edit.apply_edit(work.sources, edit)
    policy = load(sources, work.presets, work.now).policy
    if policy is None:
        return False
    work.sources, work.policy = sources, policy
    work.steps.append(SuggestedStep(f"{edit.file}, before line {edit.line}, {where}", edit.lines))
    return True


def _replace_entry(work: _Work, old: Entry, new: Entry) -> None:
    """Replace an entry of the loaded rules, and add a step with its YAML."""
    policy = work.policy
    if old.pattern is None:
        items = tuple(replace(i, entry=new) if i.entry is old else i for i in policy.networks)
        changed, alone = (
            replace(policy, networks=items),
            Policy(networks=tuple(i for i in items if i.entry is new)),
        )
    else:
        changed = replace(policy, entries={**policy.entries, old.pattern: new})
        alone = Policy(entries={old.pattern: new})
    # Compiled routes belong to the old entry, so they are rebuilt.
    work.policy = replace(changed, routes={}, shared_routes={})
    work.is_text = False
    text = as_text(alone).splitlines()[3:]
    work.steps.append(SuggestedStep(f"in place of the entry at {old.place} (its `tests` stay)", tuple(text)))


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


def _braces(fields: Fields) -> str:
    return "{ " + ", ".join(f"{name}: {flow(value)}" for name, value in fields.items()) + " }"
