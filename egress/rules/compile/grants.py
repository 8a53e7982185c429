"""Read grants, and judge them by the delegations of a policy.

A grant is read as the rule that it would be in a file, by the same loader: no host, method or path means
something else here. It is judged when it is made, and again by every policy that comes into force while it
holds, so nothing outlasts the delegation that it stands on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Literal

from egress.errors import UsageError
from egress.rules.compile.delegations import MAX_GRANT_SECONDS
from egress.rules.compile.load import RuleText, load
from egress.rules.compile.overlap import rule_covers
from egress.rules.compile.policy_writer import predicate_fields
from egress.rules.decide.overlay import Delegation, Grant, GrantTerms, Overlay
from egress.rules.decide.policy import Policy
from egress.rules.language.credential_guess import looks_like_credential
from egress.rules.language.quantities import duration_text
from egress.rules.language.report import did_you_mean, quoted
from egress.types import Identity, Severity

MAX_GRANT_TEXTS: Final = 16
"""Methods of a grant, and paths of a grant."""
_MAX_TEXT_CHARS: Final = 2048
MAX_CALLER_CHARS: Final = 64
_PROFILE_KEYS: Final = frozenset({"kind", "ttl", "by", "profile"})
_REQUEST_KEYS: Final = frozenset({"kind", "ttl", "by", "host", "port", "methods", "paths"})
_RULE_ID: Final = "grant"
_RULE_FILE: Final = "grant"


class NotDelegatedError(UsageError):
    """The rules delegate no such change to this sandbox."""


def request_terms(
    kind: Literal["allow", "deny"],
    ttl: int,
    host: str,
    port: int = 443,
    methods: Sequence[str] | None = None,
    paths: Sequence[str] | None = None,
    by: str = "",
) -> GrantTerms:
    """Read a change about requests. Raises `UsageError` where it could not stand in a rule file."""
    texts = (host, *(methods or ()), *(paths or ()))
    if max(len(methods or ()), len(paths or ())) > MAX_GRANT_TEXTS:
        raise UsageError(f"a grant has at most {MAX_GRANT_TEXTS} methods and paths", "make several grants")
    if max(map(len, texts)) > _MAX_TEXT_CHARS:
        raise UsageError(f"a path has at most {_MAX_TEXT_CHARS} characters here", "use a shorter pattern")
    # Grants are recorded, word for word.
    if any(map(looks_like_credential, texts)):
        raise UsageError("a part of it looks like a credential (not shown)", "use a wildcard in its place")
    rule: dict[str, object] = {"id": _RULE_ID}
    rule |= {"methods": list(methods)} if methods is not None else {}
    rule |= {"paths": list(paths)} if paths is not None else {}
    entry = {"ports": [port], "allow": [rule]}
    # JSON is YAML, and its quotes leave nothing in a text that the loader could take for structure.
    text = json.dumps({"version": 1, "hosts": {host: entry}}, ensure_ascii=False)
    result = load([RuleText(_RULE_FILE, text)])
    wrong = next((item for item in result.findings if item.severity is Severity.ERROR), None)
    if wrong is not None or result.policy is None:
        raise UsageError(wrong.message if wrong else "this is no rule", wrong.hint if wrong else "")
    [(pattern, made)] = result.policy.entries.items()
    return GrantTerms(kind, ttl, pattern, port, made.allow[0].predicates, by=by)


def grant_fields(grant: Grant) -> dict[str, object]:
    """Return a grant as plain data, which `read_grant` reads."""
    terms = grant.terms
    about: dict[str, object] = {"profile": terms.profile}
    if terms.host is not None:
        about = {"host": str(terms.host), "port": terms.port, **predicate_fields(terms.predicates)}
    return {
        "id": grant.id,
        "kind": terms.kind,
        **about,
        "ttl": terms.ttl,
        "expires": grant.expires,
        "delegation": grant.delegation,
        "by": terms.by,
        "change": terms_text(terms),
    }


def read_grant(fields: object, policy: Policy, identity: Identity) -> Grant:
    """Read a grant of a running proxy. Raises `UsageError` where this policy would not have made it."""
    known = fields if isinstance(fields, Mapping) else {}
    terms = read_terms({key: known[key] for key in _PROFILE_KEYS | _REQUEST_KEYS if key in known})
    grant_id, expires = known.get("id"), known.get("expires")
    if not isinstance(grant_id, str) or type(expires) is not int:
        raise UsageError("a grant has no id or no end")
    delegation = covering(policy, identity, terms)
    return Grant(grant_id, terms, expires, delegation.id, delegation.place)


def read_terms(fields: Mapping[str, object]) -> GrantTerms:
    """Read a change that another program asks for. Raises `UsageError` for anything but that."""
    kind, ttl, by = fields.get("kind"), fields.get("ttl"), fields.get("by", "")
    if type(ttl) is not int or not 0 < ttl <= MAX_GRANT_SECONDS:
        raise UsageError("the time of a grant is not given", f"`ttl` is 1 to {MAX_GRANT_SECONDS} seconds")
    if not isinstance(by, str) or len(by) > MAX_CALLER_CHARS or not by.isprintable():
        raise UsageError("`by` names who asks", f"a line of at most {MAX_CALLER_CHARS} characters")
    if looks_like_credential(by):
        raise UsageError("`by` looks like a credential (not shown)", "it is recorded; name who asks")
    known = _PROFILE_KEYS if kind == "profile" else _REQUEST_KEYS
    # A key that is not known may be meant to narrow the change.
    if unknown := sorted(fields.keys() - known):
        raise UsageError(f"unknown key {quoted(unknown[0])}", did_you_mean(unknown[0], known))
    if kind == "profile":
        profile = fields.get("profile")
        if not isinstance(profile, str) or not profile:
            raise UsageError("no profile is named", "`profile` is the name of one")
        return GrantTerms("profile", ttl, profile=profile, by=by)
    if kind not in ("allow", "deny"):
        raise UsageError("`kind` is none of a grant", "use `allow`, `deny` or `profile`")
    host, port = fields.get("host"), fields.get("port", 443)
    if not isinstance(host, str) or type(port) is not int or not 0 < port < 65536:
        raise UsageError("no host is named", "`host` is a host pattern, `port` a number from 1 to 65535")
    methods, paths = _texts(fields, "methods"), _texts(fields, "paths")
    return request_terms("allow" if kind == "allow" else "deny", ttl, host, port, methods, paths, by)


def _texts(fields: Mapping[str, object], key: str) -> list[str] | None:
    value = fields.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"`{key}` is no list of texts", "leave it out for all of them")
    return value


def terms_text(terms: GrantTerms) -> str:
    """Return a change as people read it: `allow GET https://files.example.com/public/**`."""
    if terms.host is None:
        return f"profile {terms.profile}"
    methods, paths = terms.predicates.methods, terms.predicates.paths
    port = "" if terms.port == 443 else f":{terms.port}"
    where = ", ".join(glob.text for glob in paths) if paths is not None else "/**"
    return f"{terms.kind} {','.join(sorted(methods)) if methods else '*'} https://{terms.host}{port}{where}"


def covering(policy: Policy, identity: Identity, terms: GrantTerms) -> Delegation:
    """Return the delegation that covers a change for this sandbox. Raises `NotDelegatedError`."""
    near: list[str] = []
    for delegation in policy.delegations:
        if not delegation.is_for(identity):
            continue
        beyond = _beyond(delegation, terms)
        if not beyond:
            return delegation
        near.append(f"{delegation.id}: {beyond}")
    if not near:
        raise NotDelegatedError(
            "the rules delegate nothing to this sandbox", "the operator can add it to `delegate:`"
        )
    raise NotDelegatedError(
        f"the rules do not delegate this to the sandbox ({'; '.join(near[:3])})",
        "ask for less, or have the operator widen `delegate:`",
    )


def delegated_seconds(policy: Policy, identity: Identity, profile: str, seconds: int) -> int:
    """Return for how many of these seconds a run of this sandbox may have a profile.

    Raises `NotDelegatedError`.
    """
    bounds = [
        delegation.ttl
        for delegation in policy.delegations
        if delegation.is_for(identity) and "profile" in delegation.kinds and profile in delegation.profiles
    ]
    if not bounds:
        covering(policy, identity, GrantTerms("profile", 1, profile=profile))
    return min(seconds, max(bounds))


def _beyond(delegation: Delegation, terms: GrantTerms) -> str:
    """Say by what a change goes beyond a delegation; empty where it does not."""
    if terms.kind not in delegation.kinds:
        return f"no {terms.kind}"
    if terms.ttl > delegation.ttl:
        return f"at most {duration_text(delegation.ttl)}"
    if terms.kind == "profile":
        return "" if terms.profile in delegation.profiles else "another profile"
    if terms.host is None or not any(pattern.covers(terms.host) for pattern in delegation.hosts):
        return "other hosts"
    if terms.kind == "allow" and terms.port not in delegation.ports:
        return "other ports"
    return "" if rule_covers(delegation.predicates, terms.predicates) else "other methods or paths"


def with_overlays(policy: Policy, overlays: Mapping[str, Overlay]) -> Policy:
    """Return the policy with the grants that it delegates, of those in `overlays`."""
    if not overlays and not policy.overlays:
        return policy
    kept: dict[str, Overlay] = {}
    for name, overlay in overlays.items():
        grants = []
        for grant in overlay.grants:
            with suppress(NotDelegatedError):
                by = covering(policy, overlay.identity, grant.terms)
                grants.append(replace(grant, delegation=by.id, place=by.place))
        if grants:
            # Made anew: its routes are those of the policy before.
            kept[name] = Overlay(overlay.identity, tuple(grants))
    return replace(policy, overlays=kept)
