"""Compile `profiles:`: subsets of the rules for kinds of sandboxes."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

from egress.rules.decide.entry import Entry
from egress.rules.decide.policy import Profile
from egress.rules.language.model import ProfileItem
from egress.rules.language.report import DocumentCursor, did_you_mean, quoted

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


def compile_profile(
    name: str, model: ProfileItem, entries: Mapping[str, Entry], unsound: Container[str], at: DocumentCursor
) -> Profile:
    """Compile a profile; report keys and rules that do not exist. `entries` is keyed as written.

    `unsound` holds keys of entries that already have findings.
    """
    if not _NAME.fullmatch(name):
        at.key_error(
            f"{quoted(name)} is not a profile name",
            "names are lower case: a letter, then letters, digits, - and _",
        )
    for number, key in enumerate(model.hosts):
        if key not in entries and key not in unsound:
            (at / "hosts" / number).error(f"unknown entry {quoted(key)}", did_you_mean(key, entries))
    return Profile(
        name, at.key_place, frozenset(model.hosts), _narrowing(model, entries, unsound, at / "rules")
    )


def _narrowing(
    model: ProfileItem, entries: Mapping[str, Entry], unsound: Container[str], at: DocumentCursor
) -> dict[str, frozenset[str]]:
    if model.rules == []:
        at.error("`rules` is empty", "remove `rules`, or remove the host from the profile")
    narrowed: dict[str, set[str]] = {}
    ids = {key: {rule.ref.id: None for rule in entries[key].allow} for key in model.hosts if key in entries}
    for number, text in enumerate(model.rules or ()):
        key, mark, name = text.rpartition("#")
        here = at / number
        if not mark:
            here.error(f"{quoted(text)} does not name a rule", "write KEY#id, such as api.example.com#read")
        elif key not in model.hosts:
            here.error(f"the entry {quoted(key)} is not in this profile", "add it to `hosts` of the profile")
        elif key in entries:
            if name not in ids[key] and key not in unsound:
                here.error(f"the entry {key} has no allow rule {quoted(name)}", did_you_mean(name, ids[key]))
            # Narrowed by an unknown id as well: after a mistake the profile must not keep the whole entry.
            narrowed.setdefault(key, set()).add(name)
    return {key: frozenset(ids) for key, ids in narrowed.items()}
