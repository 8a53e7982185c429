"""A rule file from traffic: outline, write, load and replay.

A draft is verified before anyone sees it: it is loaded like any rule file, and decides the same traffic
again. A host whose rules do not load is left out. A deny of the current rules that would block allowed
traffic is dropped. The head of the file lists both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from egress.errors import ContentError
from egress.review.drafting.inherited import InheritedRules
from egress.review.drafting.replay import Replay, replay
from egress.review.drafting.rule_outline import HostOutline, LeftOut, outline_hosts
from egress.review.drafting.timeout import TimeoutCheck, no_timeout
from egress.review.drafting.traffic import Traffic
from egress.review.drafting.yaml_writer import origins, write_yaml
from egress.rules.compile.load import LoadResult, RuleText, load
from egress.rules.decide.policy import Policy

NAME = "draft"
_NO_DENIES = frozenset[str]()


@dataclass(frozen=True, slots=True)
class RuleDraft:
    """The text of a drafted rule file, with its gaps and its replay."""

    text: str
    policy: Policy
    hosts: int
    left_out: tuple[LeftOut, ...]
    dropped: tuple[str, ...]
    """Denies of the current rules that the draft does not contain."""
    replayed: Replay
    """The same traffic, decided by the draft."""


def draft(
    traffic: Traffic, current: Policy | None, now: int, check_timeout: TimeoutCheck = no_timeout
) -> RuleDraft:
    """Draft rules for all allowed traffic. `current` supplies facts that are not in the log.

    The same traffic and rules give the same text. Raises `ContentError` if the draft does not load, and
    passes on the errors of `check_timeout`.
    """
    seen = list(traffic)
    inherited = InheritedRules(current)
    found, left_out = outline_hosts(seen, check_timeout)
    found, unsound = _sound(found, inherited, now, check_timeout)
    left_out += unsound
    if traffic.overflow:
        left_out.append(LeftOut("too many different requests before them", "", traffic.overflow))
    # Each round drops the denies that block allowed traffic. `dropped` only grows, so the loop ends.
    dropped = _NO_DENIES
    while True:
        check_timeout()
        text = write_yaml(found, left_out, inherited, dropped)
        policy = _policy(_load(text, now))
        replayed = replay(seen, policy, now, check_timeout)
        denying = _blocking(replayed, origins(found, inherited, dropped)) - dropped
        if not denying:
            break
        dropped |= denying
    return RuleDraft(text, policy, len(found), tuple(left_out), tuple(sorted(dropped)), replayed)


def _load(text: str, now: int) -> LoadResult:
    return load([RuleText(NAME, text)], None, now)


def _policy(loaded: LoadResult) -> Policy:
    if loaded.policy is None:
        raise ContentError(
            f"the draft does not load: {loaded.findings[0]}", "report this bug, with the current rules"
        )
    return loaded.policy


def _sound(
    found: list[HostOutline], inherited: InheritedRules, now: int, check_timeout: TimeoutCheck
) -> tuple[list[HostOutline], list[LeftOut]]:
    """Split off the hosts whose rules do not load. Hosts are loaded one by one only if all together fail."""
    # Usually all hosts load together, which saves one load per host.
    if _load(write_yaml(found, [], inherited, _NO_DENIES), now).policy is not None:
        return found, []
    kept, lost = [], []
    for outline in found:
        check_timeout()
        if _load(write_yaml([outline], [], inherited, _NO_DENIES), now).policy is None:
            lost.append(LeftOut("the rules for it do not load", outline.host, outline.requests))
        else:
            kept.append(outline)
    return kept, lost


def _blocking(replayed: Replay, origins: Mapping[str, str]) -> frozenset[str]:
    """Return the current denies that block allowed traffic in the draft, by their current names."""
    names = {change.rule for change in replayed.denied if change.code == "rule.denied"}
    return frozenset(origins[name] for name in names if name in origins)
