"""Reviewing the audit log: finding lines, adding them up, proving them, and letting go of old ones.

It reads the lines that `egress.audit` writes and never changes one. It knows no screen and no proxy.
"""

from egress.review.entry import Entry, NotALineError, parse
from egress.review.filters import FilterError, Filters
from egress.review.index import Index, Page, State
from egress.review.moments import NoMomentError, typed
from egress.review.numbers import Numbers
from egress.review.search import Cursor
from egress.review.stats import Stats

__all__ = [
    "Cursor",
    "Entry",
    "FilterError",
    "Filters",
    "Index",
    "NoMomentError",
    "NotALineError",
    "Numbers",
    "Page",
    "State",
    "Stats",
    "parse",
    "typed",
]
