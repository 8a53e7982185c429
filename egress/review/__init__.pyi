# What type checkers see of `egress.review`: each name is loaded when it is first asked for.

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
