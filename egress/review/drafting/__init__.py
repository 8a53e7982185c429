"""Rules from logged traffic: draft a rule file, replay the log with other rules, suggest a fix for a denial.

The audit log holds names and numbers only: no headers, no body, and of most queries the names of keys. A
verdict that depends on these is reported as undecidable and must not be guessed.
"""

from egress.review.drafting.draft import RuleDraft, draft
from egress.review.drafting.line_suggestion import LineSuggestion, suggest_for_line
from egress.review.drafting.log_reader import Line, TimeRange, find, is_decided, read
from egress.review.drafting.observation import Observation, observe
from egress.review.drafting.replay import Replay, VerdictChange, replay
from egress.review.drafting.suggest import SuggestedStep, Suggestion, suggest
from egress.review.drafting.traffic import Traffic

__all__ = [
    "Line",
    "LineSuggestion",
    "Observation",
    "Replay",
    "RuleDraft",
    "SuggestedStep",
    "Suggestion",
    "TimeRange",
    "Traffic",
    "VerdictChange",
    "draft",
    "find",
    "is_decided",
    "observe",
    "read",
    "replay",
    "suggest",
    "suggest_for_line",
]
