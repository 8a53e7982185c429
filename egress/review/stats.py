"""Totals: by sandbox, host, rule, secret and so on, and over time.

Whole hours and days come from roll-ups, which the index keeps for each file. What is left at the edges of
a span, and the open end of the log, is added up line by line from the columns of the blocks: so the numbers
are exact, but for percentiles. A filter that roll-ups know nothing of, such as a method or a status, is
answered from the columns alone; a text has to be looked for in the lines, and that takes its time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from egress.errors import FAILED_CODES
from egress.review import histogram
from egress.review.columns import NumberColumns as Columns
from egress.review.entry import LogEntry
from egress.review.filters import FilterError, Filters
from egress.review.line_fields import COUNTED_FIELDS, FIELDS_BY_NAME
from egress.review.line_shape import LineShape, key_of, shape_of, unmarked
from egress.review.search import EntryReader, IndexedBlock, IndexSearch
from egress.review.timestamps import DAY, HOUR, SECOND
from egress.review.totals import TotalsBuilder, TrafficTotals
from egress.types import Verdict

# A chart has a few hundred pixels, and each step costs a row of the answer.
MOST_STEPS: Final = 400
STEPS: Final = tuple(minutes * 60 * SECOND for minutes in (1, 5, 15, 60, 360, 1440, 10_080, 43_200))


@dataclass(frozen=True, slots=True)
class Stats:
    """Totals of some lines, and of each part of them."""

    total: TrafficTotals
    rows: tuple[tuple[str, TrafficTotals], ...]
    """The largest parts, by requests."""
    others: TrafficTotals | None
    """All further parts together."""
    parts: int
    """How many there are."""


RequestEnd = Literal["", "denied", "cut", "failed"]
_ENDS: Final[tuple[RequestEnd, ...]] = ("", "denied", "cut", "failed")


@dataclass(frozen=True, slots=True)
class TotalsGroup:
    """The key of a total, with the parts that it counts in."""

    names: tuple[str, ...]
    """In which parts it counts: one, or each of its secrets."""
    end: RequestEnd
    has_secret: bool


CLOCK: Final = {-1 - kind: TotalsGroup(("",), _ENDS[kind % 4], kind >= 4) for kind in range(8)}
"""What `clock` tells apart, as groups: the kinds of `indexer.KINDS`."""


class TotalsQuery:
    """A query of totals to an index."""

    def __init__(self, connection: sqlite3.Connection, directory: Path, filters: Filters) -> None:
        self._connection = connection
        self._directory = directory
        self._filters = filters

    def total(self) -> TrafficTotals:
        """Totals of all of it."""
        groups = self._groups("verdict") | CLOCK
        total = TotalsBuilder()
        # Days need fewer rows, but only hours are kept without a group, which is fewer still.
        for group, _, found in self._sums(DAY if self._filters.has_shape else HOUR):
            known = groups.get(group)
            if known is not None:
                _count(found, known)
                total.add(found)
        return total.numbers()

    def stats(self, by: str, top: int) -> Stats:
        """Totals by one thing. Raises `FilterError` for what nothing is kept by."""
        return self.tables((by,), top)[by]

    def tables(self, by: Iterable[str], top: int) -> dict[str, Stats]:
        """Totals by each of several things, for which all is added up once."""
        wanted = tuple(by)
        # Names go into SQL as columns, so only listed ones pass.
        if not set(wanted) <= set(COUNTED_FIELDS):
            raise FilterError("there are no totals by this", f"take one of: {', '.join(COUNTED_FIELDS)}")
        sums: dict[int, TotalsBuilder] = {}
        for group, _, found in self._sums():
            sums.setdefault(group, TotalsBuilder()).add(found)
        return {name: _divided(sums, self._groups(name), top) for name in wanted}

    def over_time(self, step: int = 0) -> tuple[tuple[int, TrafficTotals], ...]:
        """Totals of each step of time, in order, by the moment that it begins with; 0 chooses the step.

        A step without a line is there too, so that a chart has no holes.
        """
        first, last = self.span()
        if first > last:
            return ()
        # A step that was asked for may be too fine for the span: it is widened, so that the answer stays
        # short.
        step = max(step or fitting(last - first), (last - first) // MOST_STEPS + 1)
        groups = self._groups("verdict") | CLOCK
        sums: dict[int, TotalsBuilder] = {}
        for group, moment, found in self._sums(HOUR if step % HOUR == 0 else 0, step):
            known = groups.get(group)
            if known is not None:
                _count(found, known)
                sums.setdefault(moment // step, TotalsBuilder()).add(found)
        begin, end = first // step, last // step
        return tuple((at * step, sums.get(at, TotalsBuilder()).numbers()) for at in range(begin, end + 1))

    def span(self) -> tuple[int, int]:
        """The first and the last moment that the filters let through; the first is later if there is none."""
        query = "SELECT min(first), max(last) FROM block WHERE lines"
        first, last = self._connection.execute(query).fetchone()
        if first is None:
            return 1, 0
        since, until = self._filters.since, self._filters.until
        # Without a filter the log itself bounds the span.
        return first if since is None else max(first, since), last if until is None else min(last, until - 1)

    # Groups -------------------------------------------------------------------------------------

    def _groups(self, by: str) -> dict[int, TotalsGroup]:
        """The groups that the filters let through, as far as groups are concerned."""
        where, values = self._filters.of_totals.where()
        rows = self._connection.execute(
            f"SELECT id, {by}, verdict, code, secret FROM grp WHERE {where}",  # noqa: S608 - our own names
            values,
        )
        # A request with two secrets counts for each of them, so parts may add up to more than the total.
        is_list = FIELDS_BY_NAME[by].match == "member"
        return {
            key: TotalsGroup(unmarked(name) if is_list else (name,), _end(verdict, code), bool(secret))
            for key, name, verdict, code, secret in rows
        }

    # Sums ---------------------------------------------------------------------------------------

    def _sums(self, grain: int = DAY, step: int = 0) -> Iterator[tuple[int, int, TotalsBuilder]]:
        """Group, moment and sum of everything that the time lets through."""
        # From the most expensive answer to the cheapest: lines for a text, columns for other fields, then
        # roll-ups.
        if self._filters.grep:
            yield from self._from_lines()
            return
        if not self._filters.is_of_totals or not grain:
            yield from self._from_columns(None, None, step)
            return
        first, last = self._whole_hours()
        if first >= last:
            yield from self._from_columns(None, None, step)
            return
        yield from self._from_roll_ups(first, last, grain)
        yield from self._from_columns(first, last, step)

    def _whole_hours(self) -> tuple[int, int]:
        """The part of the span that roll-ups have."""
        since, until = self._filters.since, self._filters.until
        first, last = self.span()
        # Rounded inwards where a filter cuts an hour: the rest comes from columns, line by line.
        begin = first // HOUR * HOUR if since is None else -(-since // HOUR) * HOUR
        end = (last // HOUR + 1) * HOUR if until is None else until // HOUR * HOUR
        return begin, end

    def _from_roll_ups(self, first: int, last: int, grain: int) -> Iterator[tuple[int, int, TotalsBuilder]]:
        if grain == HOUR and not self._filters.has_shape:
            for kind, start, found in self._rows("clock", first, last):
                yield -1 - kind, start, found
            return
        day_first, day_last = -(-first // DAY) * DAY, last // DAY * DAY
        if self._filters.since is None:
            day_first = first // DAY * DAY
        if self._filters.until is None:
            day_last = -(-last // DAY) * DAY
        if grain == DAY and day_first < day_last:
            # Days in the middle, hours at both edges: a year is then a few hundred rows.
            yield from self._rows("hour", first, day_first)
            yield from self._rows("day", day_first, day_last)
            yield from self._rows("hour", day_last, last)
        else:
            yield from self._rows("hour", first, last)

    def _rows(self, table: str, first: int, last: int) -> Iterator[tuple[int, int, TotalsBuilder]]:
        if first >= last:
            return
        where, values = "1", list[str | int]()
        if table != "clock" and self._filters.has_shape:
            where, values = self._filters.where()
            where = f"grp IN (SELECT id FROM grp WHERE {where})"  # noqa: S608 - names of our own
        rows = self._connection.execute(
            f"SELECT grp, start, requests, up, down, took FROM {table}"  # noqa: S608
            f" WHERE start >= ? AND start < ? AND {where}",
            (first, last, *values),
        )
        for group, start, requests, up, down, took in rows:
            found = TotalsBuilder(requests, up=up, down=down)
            histogram.add(found.took, took)
            yield group, start, found

    def _from_columns(
        self, first: int | None, last: int | None, step: int
    ) -> Iterator[tuple[int, int, TotalsBuilder]]:
        """Sums that the roll-ups of that span lack: other moments, and the open end."""
        search = IndexSearch(self._connection, EntryReader(self._directory), self._filters)
        wanted = search.shapes()
        groups = dict(self._connection.execute("SELECT id, grp FROM shape"))
        for held in self._beside(search, first, last):
            found = search.places(held, wanted)
            columns = self._numbers(held)
            if found is None or columns is None:
                continue
            places, chosen = found
            # Lines of whole hours are in the roll-ups already, except those of the open block.
            if first is not None and last is not None and not held.is_open:
                chosen = [line for line in chosen if not first <= places.moment[line] < last]
            sums: dict[tuple[int, int], TotalsBuilder] = {}
            for line in chosen:
                # A line that stands for no request, such as a start, counts in no total.
                if not columns.requests[line]:
                    continue
                moment = places.moment[line] // step * step if step else 0
                total = sums.setdefault((groups.get(places.shape[line], 0), moment), TotalsBuilder())
                total.requests += columns.requests[line]
                total.up += columns.up[line]
                total.down += columns.down[line]
                if took := columns.took[line]:
                    number = histogram.class_of(took)
                    total.took[number] = total.took.get(number, 0) + 1
            for (group, moment), total in sums.items():
                yield group, moment, total

    def _beside(self, search: IndexSearch, first: int | None, last: int | None) -> Iterable[IndexedBlock]:
        if first is None or last is None:
            return search.blocks()
        query = "SELECT id FROM block WHERE is_open OR first < ? OR last >= ?"
        keys = {key for (key,) in self._connection.execute(query, (first, last))}
        return (held for held in search.blocks() if held.key in keys)

    def _numbers(self, held: IndexedBlock) -> Columns | None:
        query = "SELECT numbers FROM lines WHERE block = ?"
        row = self._connection.execute(query, (held.key,)).fetchone()
        return None if row is None else Columns.unpacked(row[0], held.lines)

    def _from_lines(self) -> Iterator[tuple[int, int, TotalsBuilder]]:
        with EntryReader(self._directory) as reader:
            search = IndexSearch(self._connection, reader, self._filters)
            for entry in search.entries(is_forward=True):
                if isinstance(entry, LogEntry) and entry.requests:
                    yield self._group_of(shape_of(entry.fields)), entry.moment, _of(entry)

    def _group_of(self, shape: LineShape) -> int:
        query = "SELECT grp FROM shape WHERE key = ?"
        row = self._connection.execute(query, (key_of(shape),)).fetchone()
        # A shape that is not in the index has the group 0, which no total counts.
        return 0 if row is None else int(row[0])


def _divided(sums: Mapping[int, TotalsBuilder], groups: Mapping[int, TotalsGroup], top: int) -> Stats:
    """The sums of groups as totals of the parts that the groups count in."""
    total, parts = TotalsBuilder(), dict[str, TotalsBuilder]()
    for group, found in sums.items():
        known = groups.get(group)
        if known is None:
            continue
        _count(found, known)
        total.add(found)
        for name in known.names:
            parts.setdefault(name, TotalsBuilder()).add(found)
    # By name where the requests are equal, so that two calls give the same order.
    ordered = sorted(parts.items(), key=lambda part: (-part[1].requests, part[0]))
    rest = TotalsBuilder()
    for _, part in ordered[top:]:
        rest.add(part)
    rows = tuple((name, part.numbers()) for name, part in ordered[:top])
    return Stats(total.numbers(), rows, rest.numbers() if ordered[top:] else None, len(ordered))


def _of(entry: LogEntry) -> TotalsBuilder:
    took = entry.number("total_us")
    counts = {histogram.class_of(took): 1} if took else {}
    up, down = entry.number("bytes_up"), entry.number("bytes_down")
    return TotalsBuilder(entry.requests, up=up, down=down, took=counts)


def _end(verdict: str, code: str) -> RequestEnd:
    match verdict:
        case Verdict.DENY:
            return "denied"
        case Verdict.CUT:
            return "cut"
        case Verdict.ALLOW if code in FAILED_CODES:
            return "failed"
        case _:
            return ""


def _count(found: TotalsBuilder, group: TotalsGroup) -> None:
    found.denied = found.requests if group.end == "denied" else 0
    found.cut = found.requests if group.end == "cut" else 0
    found.failed = found.requests if group.end == "failed" else 0
    found.with_secret = found.requests if group.has_secret else 0


def fitting(span: int) -> int:
    """A step that makes a span into some dozen parts."""
    return next((step for step in STEPS if span // step < 60), STEPS[-1])
