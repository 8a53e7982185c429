"""Join the uses of presets on one host: rules that are stated twice, and which credential serves which rule.

Two uses of a preset, for two owners of repositories, say, state many rules in the same words, and each brings
its credential. Of equal rules the first is kept. A credential of a preset without `for:` serves the rules of
its own use and those of the file, but no rule that another use, or the file by a `for:` of its own, serves
from the same slot. So several credentials may stand beside each other on one host; whether two of them can
still meet in one request is checked afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from egress.rules.compile.entries import EntryPart
from egress.rules.compile.injections import shared_slot
from egress.rules.decide.entry import Handling, Rule, ScopedInjection


def join_uses(parts: Sequence[EntryPart]) -> None:
    """Drop repeated rules, and give each injection of a preset the rules that it serves."""
    if len(parts) < 2:
        return
    _drop_repeated_rules(parts)
    # Decided for all before any is changed: each looks at the `for:` that the others were written with.
    scoped = [[_scoped(parts, number, item) for item in part.inject] for number, part in enumerate(parts)]
    for part, items in zip(parts, scoped, strict=True):
        part.inject = [item for item in items if item.rules is None or item.rules]


def _drop_repeated_rules(parts: Sequence[EntryPart]) -> None:
    for number, part in enumerate(parts):
        if part.use is None:
            continue
        earlier = [other for other in parts[:number] if other.use and other.use.preset == part.use.preset]
        allowed = [rule for other in earlier for rule in other.allow]
        denied = [rule for other in earlier for rule in other.deny]
        gone = {rule.ref.id for rule in part.allow if any(_is_same(rule, other) for other in allowed)}
        part.allow = [rule for rule in part.allow if rule.ref.id not in gone]
        part.deny = [rule for rule in part.deny if not any(_is_same(rule, other) for other in denied)]
        part.inject = [
            item if item.rules is None else replace(item, rules=item.rules - gone) for item in part.inject
        ]


def _is_same(one: Rule, other: Rule) -> bool:
    return (
        one.written == other.written
        and one.template == other.template
        and one.expires == other.expires
        and _without_place(one.handling) == _without_place(other.handling)
    )


def _without_place(handling: Handling) -> tuple[object, ...]:
    limit = handling.limit
    bounds = limit and (limit.requests, limit.connections, limit.request_body, limit.response_body)
    return bounds, handling.scrub, handling.redirects, handling.cookies, handling.kept_query


def _scoped(parts: Sequence[EntryPart], number: int, item: ScopedInjection) -> ScopedInjection:
    """Return an injection of a preset with the rules that no other credential serves from its slot."""
    if parts[number].use is None:
        return item
    every = {rule.ref.id for part in parts for rule in part.allow}
    served = set(every if item.rules is None else item.rules)
    for place, part in enumerate(parts):
        for other in part.inject if place != number else ():
            if shared_slot(item.injection, other.injection) is not None:
                served -= _served(parts, place, other, is_earlier=place < number, own=parts[number])
    if item.rules is None and served == every:
        return item
    return replace(item, rules=frozenset(served))


def _served(
    parts: Sequence[EntryPart], place: int, other: ScopedInjection, *, is_earlier: bool, own: EntryPart
) -> set[str]:
    """Return the rules that another credential serves before one of the part `own`."""
    part = parts[place]
    # The file outranks a preset, but a preset takes no rule of another use.
    if other.rules is not None:
        mine = {rule.ref.id for rule in own.allow}
        return set(other.rules) - (mine if part.use is not None else set())
    if part.use is None:
        return set()
    # Rules of the file, and of presets without a credential, belong to the first use that has one.
    of_others = [each for each in parts if each is not own] if is_earlier else [part]
    return {rule.ref.id for each in of_others for rule in each.allow}
