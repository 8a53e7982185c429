"""From traffic to rules: a draft of a rule file, a replay of the log against one, and one denial undone.

Everything works on what lines of the audit log hold, which is names and numbers. A query string, a body
and the headers of a request are in no line: what depends on them is told apart, and never guessed.
"""

from egress.review.drafting.draft import RuleDraft, draft
from egress.review.drafting.log_reader import Line, TimeRange, find, is_decided, read
from egress.review.drafting.observation import Observation, observe
from egress.review.drafting.replay import Replay, VerdictChange, replay
from egress.review.drafting.suggest import SuggestedStep, Suggestion, suggest
from egress.review.drafting.traffic import Traffic

__all__ = [
    "Line",
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
]
