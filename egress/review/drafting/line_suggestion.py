"""The suggestion for a line of the log: its request is decided again by the rules at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egress.policy.bundled_presets import preset_texts
from egress.review.drafting.observation import Observation, observe
from egress.review.drafting.suggest import Suggestion, suggest
from egress.review.entry import LogEntry
from egress.rules.compile.load import RuleText
from egress.rules.decide.policy import Policy


@dataclass(frozen=True, slots=True)
class LineSuggestion:
    """A denied request of the log, and the change that would allow it."""

    request: Observation
    suggestion: Suggestion
    is_current: bool
    """True if the rules at hand are those that decided it."""


def suggest_for_line(
    line: LogEntry, sources: Sequence[RuleText], policy: Policy | None, now: int
) -> LineSuggestion | None:
    """Suggest a rule change for the request of a line; None for a line without one, such as a reload.

    `sources` are the rule files at hand, and `policy` is what they compile to; None if they have errors.
    """
    request = observe(line.fields)
    if request is None:
        return None
    suggestion = suggest(request, line.text("address"), sources, preset_texts(), now)
    return LineSuggestion(request, suggestion, policy is not None and policy.digest == line.text("policy"))
