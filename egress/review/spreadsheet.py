"""Lines of the log as CSV for a spreadsheet. Pure.

A sandbox may have written the text of a cell so that the spreadsheet calculates it. Such a cell is disarmed.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from egress.review.entry import LogEntry
from egress.review.line_fields import CSV_COLUMNS

# A spreadsheet may cut lines at other characters than we do, and quotes do not keep a cell together then:
# so the start of a formula is disarmed wherever a cell could begin, also in full-width characters.
_FORMULA = re.compile(r"""(?:^|(?<=[ ,;|"]))(?=[=+@\-\uff1d\uff0b\uff20\uff0d])""")


def lines_as_csv(entries: Iterable[LogEntry], *, with_head: bool = True) -> str:
    """Return lines as CSV, with a row of names in front."""
    rows = [[_value(entry, name) for name in CSV_COLUMNS] for entry in entries]
    return rows_as_csv([CSV_COLUMNS, *rows] if with_head else rows)


def rows_as_csv(rows: Iterable[Sequence[str | int]]) -> str:
    """Return rows as CSV. Text from elsewhere has to be `harmless` before."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def _value(entry: LogEntry, name: str) -> str:
    if name == "secrets":
        return harmless(" ".join(entry.secrets))
    if name == "verdict":
        return entry.verdict
    found = entry.fields.get(name)
    return str(entry.number(name)) if isinstance(found, int) else harmless(entry.text(name))


def harmless(text: str) -> str:
    """Return the text so that every character shows and no spreadsheet takes it for a formula."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return _FORMULA.sub("'", shown)
