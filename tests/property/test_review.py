"""The index answers as reading every line would, whatever is in the log and however it came there."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from egress.audit import Intent, Sink, files
from egress.exchange import Destination
from egress.review import Filters, Index, LogEntry, NotALineError, parse
from egress.review.line_fields import COUNTED_FIELDS
from egress.review.line_shape import shape_of
from egress.review.timestamps import HOUR
from egress.types import Identity, Verdict
from tests.tiers import examples
from tests.unit.audit.sample import DENIED, FACTS, NAME, OPENING, RECORD, Clock, opened

WORD = st.sampled_from(["a", "B", "ab.c", "x[y", "é", 'q"', "%_", "\x1b[2J"])
STEP = st.tuples(
    st.sampled_from(
        [
            "exchange",
            "denied",
            "cut",
            "failed",
            "as before",
            "name",
            "event",
            "junk",
            "catch up",
            "later",
            "back",
        ]
    ),
    WORD,
    WORD,
)
FILTER_FIELDS = st.builds(
    Filters,
    sandbox=st.just("") | WORD,
    host=st.just("") | WORD | st.sampled_from(["*", "a*", "*.c"]),
    verdict=st.sampled_from(["", "allow", "deny", "cut"]),
    secret=st.sampled_from(["", "", "github", "git"]),
    status=st.sampled_from(["", "", "200", "4xx"]),
    rule=st.sampled_from(["", "", "read", "api.github.com#read"]),
    method=st.sampled_from(["", "", "GET"]),
    profile=st.sampled_from(["", "", "coding"]),
    event=st.sampled_from(["", "", "exchange", "refusal", "started"]),
    grep=st.just("") | WORD | st.sampled_from(["/path/ab", "PATH", "nowhere"]),
    since=st.none() | st.integers(492_321, 492_330).map(lambda hour: hour * HOUR + 1),
    until=st.none() | st.integers(492_324, 492_340).map(lambda hour: hour * HOUR),
)


def do(sink: Sink, clock: Clock, log: Path, step: tuple[str, str, str], number: int) -> None:
    kind, one, other = step
    who = Identity(one, None)
    facts = replace(FACTS, request=f"r-{number}")
    match kind:
        case "exchange":
            record = replace(
                RECORD, identity=who, destination=Destination("https", other, 443), path=f"/path/{other}"
            )
            sink.exchange(sink.begin(opening(one, number)), record, facts)
        case "cut" | "failed" | "as before":
            code = "upstream.closed" if kind == "failed" else "canary.seen"
            verdict = Verdict.CUT if kind == "cut" else Verdict.ALLOW
            record = replace(RECORD, identity=who, path=other, verdict=verdict, code=code)
            way = replace(FACTS.way, address="192.0.2.10" if other == "a" else "")
            sink.exchange(sink.begin(opening(one, number)), record, replace(facts, way=way))
        case "denied":
            sink.exchange(None, replace(DENIED, identity=who, path=other), facts)
        case "name":
            sink.refusal(replace(NAME, identity=who, host=other))
        case "event":
            sink.event("killed", kind="host", name=other)
        case "junk":
            sink.flush()
            with (log / files.name(files.numbers(log)[-1])).open("ab") as file:
                file.write(b"junk " + one.encode() + b"\n")
        case "later":
            clock.ns += 7 * 10**9 * 600
            clock.seconds += 4200
        case "back":
            clock.ns -= 10**9 * 1800


def opening(sandbox: str, number: int) -> Intent:
    return replace(OPENING, sandbox=sandbox, request=f"r-{number}")


def by_hand(log: Path) -> list[LogEntry]:
    """Every line of the log, oldest first, read without an index."""
    found = []
    for number in files.numbers(log):
        at = 0
        for line in (log / files.name(number)).read_bytes().split(b"\n")[:-1]:
            with suppress(NotALineError):
                found.append(parse(line, number, at))
            at += len(line) + 1
    return found


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(STEP, max_size=25), st.lists(FILTER_FIELDS, min_size=1, max_size=6), st.integers(1, 5))
def test_an_index_answers_as_the_lines_do(
    steps: list[tuple[str, str, str]], asked: list[Filters], block: int
) -> None:
    with tempfile.TemporaryDirectory() as name, patch("egress.review.blocks.MOST_LINES", block):
        log, clock = Path(name, "log"), Clock()
        sink = opened(log, clock, in_flight=64, rotate_at=2500)
        sink.event("started")
        sink.flush()
        with Index(log, reserve=0) as index:
            for number, step in enumerate(steps):
                do(sink, clock, log, step, number)
                sink.flush()
                if step[0] == "catch up":
                    index.catch_up()
            index.catch_up()
            entries = by_hand(log)
            for filters in (Filters(), *asked):
                check(index, filters, [entry for entry in entries if filters.admits(entry)])
        sink.close()


def check(index: Index, filters: Filters, right: list[LogEntry]) -> None:
    found, cursor = list[LogEntry](), None
    while True:
        page = index.query(filters, 3, cursor)
        found += page.entries
        cursor = page.cursor
        if cursor is None:
            break
    assert found == right[::-1], filters
    assert list(index.each(filters)) == right
    stats = index.stats(filters, "host").total
    asked = sum(entry.requests for entry in right)
    denied, cut = (
        sum(entry.requests for entry in right if entry.verdict == verdict) for verdict in ("deny", "cut")
    )
    failed = sum(entry.is_failed for entry in right)
    moved = sum(entry.number("bytes_down") for entry in right)
    assert (stats.requests, stats.denied, stats.bytes_down) == (asked, denied, moved), filters
    assert (stats.cut, stats.failed) == (cut, failed), filters
    assert index.total(filters) == stats, filters
    tables = index.tables(filters, COUNTED_FIELDS, 5)
    assert tables == {by: index.stats(filters, by, 5) for by in COUNTED_FIELDS}
    assert {each.total for each in tables.values()} == {stats}
    over_time = index.over_time(filters)
    assert sum(numbers.requests for _, numbers in over_time) == asked, filters
    assert sum(numbers.cut for _, numbers in over_time) == cut, filters
    assert sum(numbers.failed for _, numbers in over_time) == failed, filters


@given(FILTER_FIELDS, WORD, WORD, st.sampled_from(list(Verdict)))
def test_a_filter_says_the_same_of_a_line_and_of_its_shape(
    filters: Filters, sandbox: str, host: str, verdict: Verdict
) -> None:
    fields = {"event": "exchange", "sandbox": sandbox, "host": host, "verdict": str(verdict), "status": 200}
    line = LogEntry(1, "", filters.since or 0, "exchange", fields, b"")
    if not filters.grep and filters.admits_moment(line.moment):
        assert filters.admits(line) == filters.admits_shape(shape_of(fields))
