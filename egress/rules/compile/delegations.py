"""Compile `delegate:`: bounds within which single sandboxes can be granted changes to their rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from egress.rules.compile import single_rules
from egress.rules.decide.globs import ValueGlob
from egress.rules.decide.overlay import Delegation, GrantKind
from egress.rules.decide.policy import Profile
from egress.rules.decide.predicates import Predicates
from egress.rules.language import quantities
from egress.rules.language.delegation_models import DelegateItem, DelegateTo
from egress.rules.language.report import DocumentCursor, did_you_mean, quoted

MAX_GRANT_SECONDS: Final = 7 * 86400
"""Longest time of a grant. What is needed for longer belongs into the rule file."""
_HOST_KEYS: Final = ("may", "ports", "methods", "paths")
_SANDBOX_PATTERN: Final = re.compile(r"[a-z0-9._*-]{1,63}")


def compile_delegation(model: DelegateItem, at: DocumentCursor, ids: single_rules.RuleIds) -> Delegation:
    """Compile an item; report bounds that allow nothing, and keys that have no effect."""
    if model.hosts is None and model.profiles is None:
        at.error("nothing is delegated here", "add `hosts`, or `profiles` that may be chosen")
    if model.hosts is None:
        for name in _HOST_KEYS:
            if getattr(model, name) is not None:
                (at / name).key_error(
                    f"{quoted(name)} has no effect without `hosts`", "add `hosts`, or remove it"
                )
    kinds: tuple[GrantKind, ...] = ("allow", "deny") if model.may is None else tuple(model.may)
    if "allow" not in kinds and model.ports is not None:
        (at / "ports").key_error("`ports` has no effect: a deny holds on every port", "remove it")
    # The bounds are compiled even without `hosts`, so that one run shows every mistake in them.
    sandboxes, holders = _holders(model.to, at / "to")
    return Delegation(
        id=ids.claim(model.id, at).id,
        place=at.place,
        ttl=_ttl(model, at / "ttl"),
        sandboxes=sandboxes,
        holders=holders,
        kinds=frozenset(kinds if model.hosts is not None else ())
        | frozenset[GrantKind](("profile",) if model.profiles is not None else ()),
        hosts=single_rules.host_patterns(model.hosts or [], at / "hosts") if model.hosts is not None else (),
        ports=frozenset(model.ports or (443,)),
        predicates=Predicates(
            methods=None if model.methods is None else single_rules.methods(model.methods, at / "methods"),
            paths=None if model.paths is None else single_rules.paths(model.paths, at / "paths"),
        ),
        profiles=frozenset(model.profiles or ()),
    )


def _holders(
    model: DelegateTo, at: DocumentCursor
) -> tuple[tuple[ValueGlob, ...] | None, frozenset[str] | None]:
    # Left empty by mistake, `to` must not mean every sandbox.
    if model.sandboxes is None and model.profiles is None:
        at.error("this is delegated to no sandbox", 'add `sandboxes` or `profiles`; sandboxes: ["*"] is all')
        return (), None
    for number, text in enumerate(model.sandboxes or ()):
        if not _SANDBOX_PATTERN.fullmatch(text):
            (at / "sandboxes" / number).error(
                f"{quoted(text)} is not a pattern for names of sandboxes",
                "names have lower-case letters, digits, dots, - and _; * stands for any text",
            )
    sandboxes = None if model.sandboxes is None else tuple(ValueGlob(text) for text in model.sandboxes)
    return sandboxes, None if model.profiles is None else frozenset(model.profiles)


def _ttl(model: DelegateItem, at: DocumentCursor) -> int:
    seconds = at.parse(quantities.parse_duration, model.ttl)
    if seconds is not None and seconds > MAX_GRANT_SECONDS:
        at.error("a grant ends after 7 days at most", "a rule of the file has no such end")
        return 0
    # After an error no grant is short enough: should the error ever be overlooked, nothing is delegated.
    return 0 if seconds is None else seconds


def check_delegated_profiles(
    model: DelegateItem, profiles: Mapping[str, Profile] | None, at: DocumentCursor
) -> None:
    """Report profiles that do not exist: a delegation to or of such a profile can never be used."""
    for names, here in ((model.profiles, at / "profiles"), (model.to.profiles, at / "to" / "profiles")):
        for number, name in enumerate(names or ()):
            if profiles is None:
                (here / number).error("these rules have no profiles", "add `profiles:`, or remove this key")
            elif name not in profiles:
                (here / number).error(f"unknown profile {quoted(name)}", did_you_mean(name, profiles))
