"""A rule file from what was seen: outlined, written, loaded, and replayed before anybody gets it.

The draft is not trusted to be right because it was made with care: it is loaded as any rule file is, and
everything that was seen is decided by it again. A host whose rules do not load is left out; a deny of
the rules at hand that would deny what passed is not taken over; and both are said in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from egress.errors import ContentError
from egress.review.drafting.inherited import InheritedRules
from egress.review.drafting.outline import HostOutline, LeftOut, outline_hosts
from egress.review.drafting.replay import Replay, replay
from egress.review.drafting.timeout import TimeoutCheck, never_timeout
from egress.review.drafting.traffic import Traffic
from egress.review.drafting.yaml_writer import origins, write_yaml
from egress.rules.compile.load import LoadResult, RuleText, load
from egress.rules.decide.policy import Policy

NAME = "draft"
_NO_DENIES = frozenset[str]()


@dataclass(frozen=True, slots=True)
class RuleDraft:
    """The text of a rule file, and what is to be known about it."""

    text: str
    policy: Policy
    hosts: int
    left_out: tuple[LeftOut, ...]
    dropped: tuple[str, ...]
    """Denies of the rules at hand that are not in it."""
    replayed: Replay
    """The same traffic, decided by the draft."""


def draft(
    traffic: Traffic, current: Policy | None, now: int, patience: TimeoutCheck = never_timeout
) -> RuleDraft:
    """Write rules for everything that passed. `current` are the rules at hand, for what no log holds.

    The same traffic and rules give the same text. Raises `ContentError` where no rules come of it, and
    what `patience` raises.
    """
    seen = list(traffic)
    carried = InheritedRules(current)
    found, left_out = outline_hosts(seen, patience)
    found, unsound = _sound(found, carried, now, patience)
    left_out += unsound
    if traffic.beyond:
        left_out.append(LeftOut("too many different ones were seen before", "", traffic.beyond))
    dropped = _NO_DENIES
    while True:
        patience()
        text = write_yaml(found, left_out, carried, dropped)
        policy = _policy(_load(text, now))
        replayed = replay(seen, policy, now, patience)
        denying = _taken_over(replayed, origins(found, carried, dropped)) - dropped
        if not denying:
            break
        dropped |= denying
    return RuleDraft(text, policy, len(found), tuple(left_out), tuple(sorted(dropped)), replayed)


def _load(text: str, now: int) -> LoadResult:
    return load([RuleText(NAME, text)], None, now)


def _policy(loaded: LoadResult) -> Policy:
    if loaded.policy is None:
        raise ContentError(
            f"the draft is not sound: {loaded.findings[0]}", "report it, with the rules at hand"
        )
    return loaded.policy


def _sound(
    found: list[HostOutline], carried: InheritedRules, now: int, patience: TimeoutCheck
) -> tuple[list[HostOutline], list[LeftOut]]:
    """Those whose rules load. Each is asked alone only where they do not load together."""
    if _load(write_yaml(found, [], carried, _NO_DENIES), now).policy is not None:
        return found, []
    kept, lost = [], []
    for outline in found:
        patience()
        if _load(write_yaml([outline], [], carried, _NO_DENIES), now).policy is None:
            lost.append(LeftOut("the rules for it do not load", outline.host, outline.requests))
        else:
            kept.append(outline)
    return kept, lost


def _taken_over(replayed: Replay, origins: Mapping[str, str]) -> frozenset[str]:
    """The denies at hand behind what the draft would deny, by the names they have there."""
    names = {change.rule for change in replayed.denied if change.code == "rule.denied"}
    return frozenset(origins[name] for name in names if name in origins)
