"""Reviewing the audit log: finding lines, adding them up, proving them, and letting go of old ones.

It reads the lines that `egress.audit` writes and never changes one. It knows no screen and no proxy.
"""

from egress.review.entry import LogEntry, NotALineError, parse
from egress.review.filters import FilterError, Filters
from egress.review.index import Index, IndexState, ResultPage
from egress.review.line_fields import COUNTED_FIELDS, CSV_COLUMNS, FILTER_FIELDS
from egress.review.search import Cursor
from egress.review.stats import Stats
from egress.review.timestamps import InvalidTimeError, parse_typed
from egress.review.totals import TrafficTotals

__all__ = [
    "COUNTED_FIELDS",
    "CSV_COLUMNS",
    "FILTER_FIELDS",
    "Cursor",
    "FilterError",
    "Filters",
    "Index",
    "IndexState",
    "InvalidTimeError",
    "LogEntry",
    "NotALineError",
    "ResultPage",
    "Stats",
    "TrafficTotals",
    "parse",
    "parse_typed",
]
