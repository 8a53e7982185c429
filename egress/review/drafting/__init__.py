"""From traffic to rules: a draft of a rule file, a replay of the log against one, and one denial undone.

Everything works on what lines of the audit log hold, which is names and numbers. A query string, a body
and the headers of a request are in no line: what depends on them is told apart, and never guessed.
"""

from egress.review.drafting.draft import Draft, draft
from egress.review.drafting.lines import Line, Since, find, is_decided, read
from egress.review.drafting.replay import Change, Replay, replay
from egress.review.drafting.seen import Seen, seen
from egress.review.drafting.suggest import Step, Suggestion, suggest
from egress.review.drafting.traffic import Traffic

__all__ = [
    "Change",
    "Draft",
    "Line",
    "Replay",
    "Seen",
    "Since",
    "Step",
    "Suggestion",
    "Traffic",
    "draft",
    "find",
    "is_decided",
    "read",
    "replay",
    "seen",
    "suggest",
]
