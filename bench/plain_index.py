"""An index of plain SQLite rows with FTS5, measured beside the block index of `egress.review`.

One row for each line: where it begins, the id of everything that it shares with other lines, and its numbers.
FTS5 holds the path of each line as trigrams. Totals are sums over rows. Decision 0041
compares the two designs by what this prints: seconds of the processor, so that other work on the machine
changes them little. It judges nothing.

    EGRESS_BENCH_LINES=1000000 EGRESS_BENCH_LOG=/var/tmp/lines python -m bench plain_index
"""

from __future__ import annotations

import resource
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.review import BEGAN, LINES, QUERIES, WEEK, open_log
from egress.audit import files
from egress.review import Filters, Index, NotALineError, schema
from egress.review.histogram import class_of, percentile
from egress.review.indexed_line import read
from egress.review.line_fields import FIELDS_BY_NAME
from egress.review.line_reader import pieces
from egress.review.line_shape import LineShape
from egress.review.search import EntryReader

Row = tuple[str, float, str, float | None]

FILE_BITS = 36
"""A place is the number of a file and an offset in it, in one integer."""
TABLES = f"""
CREATE TABLE kind (id INTEGER PRIMARY KEY, {", ".join(FIELDS_BY_NAME)});
CREATE TABLE line (place INTEGER PRIMARY KEY, kind INTEGER NOT NULL, moment INTEGER NOT NULL,
  requests INTEGER NOT NULL, up INTEGER NOT NULL, down INTEGER NOT NULL, took INTEGER NOT NULL,
  class INTEGER NOT NULL, request INTEGER NOT NULL, connection INTEGER NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(path, tokenize='trigram', content='', detail=none);
"""
INDEXES = """
CREATE INDEX line_kind ON line (kind, place);
CREATE INDEX line_moment ON line (moment);
CREATE INDEX line_request ON line (request);
CREATE INDEX line_connection ON line (connection);
CREATE INDEX line_total ON line (kind, class, requests, up, down);
"""


def build(folder: Path, place: Path) -> sqlite3.Connection:
    """Read every line of a log into rows."""
    place.unlink(missing_ok=True)
    connection = sqlite3.connect(place, isolation_level=None)
    connection.executescript(
        "PRAGMA page_size = 16384; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
        f"PRAGMA cache_size = -131072; {TABLES}"
    )
    kinds: dict[LineShape, int] = {}
    connection.execute("BEGIN")
    for number in files.numbers(folder):
        with (folder / files.name(number)).open("rb") as file:
            for piece in pieces(file):
                _add(connection, kinds, piece.lines, number << FILE_BITS | piece.at)
    connection.executescript(f"{INDEXES} PRAGMA optimize")
    return connection


def _add(connection: sqlite3.Connection, kinds: dict[LineShape, int], lines: list[bytes], at: int) -> None:
    rows, words = [], []
    for line in lines:
        try:
            found = read(line)
        except NotALineError:
            at += len(line) + 1
            continue
        kind = kinds.get(found.shape)
        if kind is None:
            kind = kinds[found.shape] = len(kinds) + 1
            marks = ", ".join("?" * (len(found.shape) + 1))
            connection.execute(f"INSERT INTO kind VALUES ({marks})", (kind, *found.shape))
        rows.append((at, kind, *found[1:6], class_of(found.total_us), *found[6:8]))
        words.append((at, found.text.decode("ascii")))
        at += len(line) + 1
    connection.executemany("INSERT INTO line VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    connection.executemany("INSERT INTO words (rowid, path) VALUES (?, ?)", words)


def page(connection: sqlite3.Connection, folder: Path, filters: Filters, limit: int = 50) -> int:
    """The newest lines that the filters want, read from the log; returns how many."""
    where, values = [], list[str | int]()
    source = "line"
    if filters.has_shape:
        kinds, values = filters.where()
        wanted = f"SELECT id FROM kind WHERE {kinds}"
        (count,) = connection.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM line WHERE kind IN ({wanted}) LIMIT 20000)", values
        ).fetchone()
        # Few lines are found by their kind; of many, the newest are met soon.
        where.append(f"{'' if count < 20_000 else '+'}kind IN ({wanted})")
    if filters.grep:
        source = "words"
    if filters.since is not None:
        where.append("moment >= ?")
        values.append(filters.since)
    if filters.until is not None:
        where.append("moment < ?")
        values.append(filters.until)
    if source == "words":
        query = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?"
        values = [" AND ".join(f'"{part}"' for part in _trigrams(filters.needle))]
    else:
        condition = " AND ".join(where) or "1"
        query = f"SELECT place FROM line WHERE {condition} ORDER BY place DESC LIMIT ?"
    with EntryReader(folder) as reader:
        found = 0
        for (place,) in connection.execute(query, (*values, limit)):
            entry = reader.entry(place >> FILE_BITS, place & (1 << FILE_BITS) - 1)
            found += entry is not None and filters.admits(entry)
    return found


def _trigrams(needle: str) -> list[str]:
    return [needle[at : at + 3] for at in range(len(needle) - 2)]


def total(connection: sqlite3.Connection, by: str, filters: Filters) -> int:
    """Sums and percentiles by a column of what lines share."""
    where, values = filters.where()
    time_from = "" if filters.since is None else f" AND moment >= {filters.since}"
    rows = connection.execute(
        f"SELECT kind, class, sum(requests), sum(up), sum(down) FROM line"
        f" WHERE kind IN (SELECT id FROM kind WHERE {where}){time_from} GROUP BY kind, class",
        values,
    ).fetchall()
    names = dict(connection.execute(f"SELECT id, {by} FROM kind").fetchall())
    classes: dict[str, dict[int, int]] = {}
    for kind, number, requests, *_ in rows:
        counts = classes.setdefault(names[kind], {})
        counts[number] = counts.get(number, 0) + requests
    return sum(percentile(counts, 0.5) + percentile(counts, 0.95) > 0 for counts in classes.values())


def over_time(connection: sqlite3.Connection, step: int = 6 * 3600 * 1_000_000) -> int:
    """Sums of each step of time."""
    query = "SELECT moment / ?, class, sum(requests), sum(up), sum(down) FROM line GROUP BY 1, 2"
    return len(connection.execute(query, (step,)).fetchall())


def answers(
    ask: Callable[[Filters], object],
    count: Callable[[str, Filters], object],
    count_over_time: Callable[[], object],
) -> Iterator[float]:
    """How long each question of `bench.review` takes, in milliseconds."""
    for filters in QUERIES.values():
        yield cpu(lambda f=filters: ask(f))  # type: ignore[misc]
    middle = (BEGAN + WEEK // 2) // 1000
    for by, filters in (
        *((by, Filters()) for by in ("sandbox", "host", "secret")),
        ("host", Filters(since=middle, sandbox="agent-1")),
    ):
        yield cpu(lambda b=by, f=filters: count(b, f))  # type: ignore[misc]
    yield cpu(count_over_time)


def cpu(job: Callable[[], object], rounds: int = 3) -> float:
    """Milliseconds of the processor for one call: the best of several rounds."""
    found = []
    for _ in range(rounds):
        began = time.process_time()
        job()
        found.append(time.process_time() - began)
    return min(found) * 1000


NAMES = (
    *(f"first page: {name}" for name in QUERIES),
    *("numbers by sandbox", "numbers by host", "numbers by secret", "numbers of one sandbox since a moment"),
    "numbers over time",
)


def run() -> Iterator[Row]:
    """Both designs on one log, one after the other."""
    with open_log() as folder:
        plain = list(_of_plain_rows(folder))
        for name, value, unit, blocks in zip(
            ("lines indexed", "the index, of each line", *NAMES),
            plain,
            ("/s", "bytes", *["ms"] * len(NAMES)),
            _of_blocks(folder),
            strict=True,
        ):
            yield (f"plain rows: {name}", value, unit, None)
            yield (f"blocks: {name}", blocks, unit, None)
        yield ("most memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB", None)


def _of_plain_rows(folder: Path) -> Iterator[float]:
    place = folder / "plain.sqlite3"
    began = time.process_time()
    connection = build(folder, place)
    yield LINES / (time.process_time() - began)
    yield place.stat().st_size / LINES
    yield from answers(
        lambda filters: page(connection, folder, filters),
        lambda by, filters: total(connection, by, filters),
        lambda: over_time(connection),
    )
    connection.close()
    place.unlink()


def _of_blocks(folder: Path) -> Iterator[float]:
    schema.throw_away(folder / schema.NAME)
    with Index(folder) as index:
        began = time.process_time()
        index.catch_up()
        yield LINES / (time.process_time() - began)
        yield index.place.stat().st_size / LINES
        yield from answers(
            lambda filters: index.query(filters, 50),
            lambda by, filters: index.stats(filters, by),
            lambda: index.over_time(Filters()),
        )


if __name__ == "__main__":
    for name, value, unit, _ in run():
        print(f"{name:<60}{value:12,.1f} {unit}")
