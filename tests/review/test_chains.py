"""A log of several chains, reviewed as one: order, pages, totals, following, drafts, evidence, pruning."""

from __future__ import annotations

import json
import os
import zipfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import example, given, settings
from hypothesis import strategies as st

from egress.audit import Sink, open_log, verify_log
from egress.errors import ContentError
from egress.review import Filters, Index, LogEntry, NotALineError, evidence_check, parse
from egress.review.drafting import TimeRange, Traffic, find
from egress.review.drafting import read as read_lines
from egress.review.evidence_bundle import BundleRequest, make
from egress.review.follow import follow
from egress.review.log_files import LogFiles
from egress.review.pruning import Retention, prune, record_pruning
from egress.review.search import Cursor
from tests.tiers import examples
from tests.unit.audit.chained_log import sound_log
from tests.unit.audit.sample import DENIED, FACTS, KEY, MOMENT, RECORD, Clock, kinds, opened

SECOND = 10**9


@dataclass
class Runs:
    """Proxies that write one log at the same time, by one clock."""

    log: Path
    count: int
    rotate_at: int = 1 << 26

    def __post_init__(self) -> None:
        self.clock = Clock()
        options = {"in_flight": 8, "rotate_at": self.rotate_at}
        self.sinks: list[Sink] = [
            open_log(self.log, KEY, clock=self.clock, run=f"run-{number}", **options)  # type: ignore[arg-type]
            for number in range(self.count)
        ]

    def exchange(self, run: int, request: str, *, is_denied: bool = False, after: float = 1.0) -> None:
        self.clock.ns += int(after * SECOND)
        self.clock.seconds += max(after, 0)
        facts = replace(FACTS, request=request)
        self.sinks[run].exchange(None, replace(DENIED if is_denied else RECORD, path=f"/{request}"), facts)
        self.sinks[run].flush()

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Twelve requests of three runs, in turns; every third is denied."""
    runs = Runs(tmp_path / "audit", 3)
    for number in range(12):
        runs.exchange(number * 7 % 3, f"r-{number}", is_denied=number % 3 == 2)
    runs.close()
    return tmp_path / "audit"


def names(entries: list[LogEntry] | tuple[LogEntry, ...]) -> list[str]:
    return [entry.request for entry in entries]


IN_ORDER = [f"r-{number}" for number in range(12)]


def paged(index: Index, filters: Filters, size: int) -> list[LogEntry]:
    """Every line that fits, page by page; each place is read as it was shown."""
    found, cursor = list[LogEntry](), None
    while True:
        page = index.query(filters, size, cursor)
        found += page.entries
        if page.cursor is None:
            return found
        cursor = Cursor.of(str(page.cursor))


def test_a_query_shows_all_runs_in_the_order_of_time(log: Path) -> None:
    with Index(log, reserve=0) as index:
        assert index.catch_up().files == 3
        assert names(index.query(Filters()).entries) == IN_ORDER[::-1]
        assert names(list(index.each(Filters()))) == IN_ORDER
        for size in (1, 2, 5, 12):
            assert names(paged(index, Filters(), size)) == IN_ORDER[::-1]
        assert names(index.query(Filters(verdict="deny")).entries) == ["r-11", "r-8", "r-5", "r-2"]


def test_every_line_names_its_run_and_a_run_is_a_filter(log: Path) -> None:
    with Index(log, reserve=0) as index:
        index.catch_up()
        lines = {entry.request: entry.text("run") for entry in index.query(Filters()).entries}
        assert lines == {f"r-{number}": f"run-{number * 7 % 3}" for number in range(12)}
        assert names(index.query(Filters(run="run-1")).entries) == ["r-10", "r-7", "r-4", "r-1"]
        assert index.values("run") == ("run-0", "run-1", "run-2")
        stats = index.stats(Filters(), "run")
        assert {name: totals.requests for name, totals in stats.rows} == dict.fromkeys(index.values("run"), 4)
        assert (stats.total.requests, stats.total.denied) == (12, 4)
        assert sum(totals.requests for _, totals in index.over_time(Filters())) == 12


def test_an_id_is_found_whichever_run_wrote_it(log: Path) -> None:
    with Index(log, reserve=0) as index:
        index.catch_up()
        assert [names(index.find(name)) for name in IN_ORDER] == [[name] for name in IN_ORDER]
        assert index.newest("c-17", lambda _: True) == index.find("r-11")[0]
    for name in IN_ORDER:
        line = find(log, name)
        assert line is not None
        assert line.request == name
    newest = find(log, "c-17")
    assert newest is not None
    assert newest.request == "r-11"


def test_an_index_of_a_log_of_one_chain_goes_on_with_several(tmp_path: Path) -> None:
    runs = Runs(tmp_path, 1)
    runs.exchange(0, "r-0")
    with Index(tmp_path, reserve=0) as index:
        assert index.catch_up().lines == 1
        other = open_log(tmp_path, KEY, clock=runs.clock, run="other", in_flight=8)
        runs.sinks.append(other)
        runs.exchange(1, "r-1")
        runs.exchange(0, "r-2")
        assert index.catch_up().lines == 3
        assert names(index.query(Filters()).entries) == ["r-2", "r-1", "r-0"]
    runs.close()


def test_following_shows_new_lines_of_every_run_also_of_one_that_begins_meanwhile(tmp_path: Path) -> None:
    runs = Runs(tmp_path, 2)
    for number in range(6):
        runs.exchange(number % 2, f"r-{number}")
    rounds = iter(("turns", "another", "end"))

    def wait() -> bool:
        match next(rounds):
            case "turns":
                runs.exchange(1, "n-1")
                runs.exchange(0, "n-2")
                runs.exchange(1, "n-3")
            case "another":
                sink = open_log(tmp_path, KEY, clock=runs.clock, run="late", in_flight=8)
                runs.sinks.append(sink)
                runs.exchange(2, "n-4")
            case _:
                return False
        return True

    found = list(follow(tmp_path, Filters(), 3, wait))
    assert names(found) == ["r-3", "r-4", "r-5", "n-1", "n-2", "n-3", "n-4"]
    assert names(list(follow(tmp_path, Filters(run="late"), 3))) == ["n-4"]
    runs.close()


def test_a_draft_knows_the_traffic_of_every_run(log: Path) -> None:
    since = TimeRange(MOMENT // SECOND)
    paths = {f"/r-{number}" for number in range(12)}
    assert {one.path for one, _ in Traffic.of(read_lines(log, since), None)} == paths
    # With an index, parts of another time are passed over, in every chain.
    later = TimeRange((MOMENT + 7 * SECOND) // SECOND)
    with patch("egress.review.blocks.MOST_LINES", 1), Index(log, reserve=0) as index:
        index.catch_up()
    found = Traffic.of(read_lines(log, later), None)
    assert found.lines == 6


def test_evidence_holds_lines_of_every_chain_and_says_where_each_ended(log: Path, tmp_path: Path) -> None:
    verified = verify_log(log, KEY, keeps_seen=True)
    target = tmp_path / "evidence.zip"
    made = make(target, BundleRequest(Filters(verdict="deny"), verified), Ed25519PrivateKey.generate())
    assert (made.lines, made.leaves) == (4, 12)
    found = evidence_check.check(target, made.fingerprint)
    assert found.is_sound, found.faults
    told = found.part("log")["chains"]
    assert isinstance(told, dict)
    assert {place: end["newest"] for place, end in told.items()} == {
        ".": 4,
        "chains/0002": 4,
        "chains/0003": 4,
    }
    with zipfile.ZipFile(target) as archive:
        lines = [json.loads(line)["request"] for line in archive.read("lines.jsonl").splitlines()]
        summary = json.loads(archive.read("summary.json"))
    assert sorted(lines) == ["r-11", "r-2", "r-5", "r-8"]
    times = [parse(line).time for file in LogFiles.of(log) for line in file.path.read_bytes().splitlines()]
    assert times[0] < summary["first"] < summary["last"] == max(times)


# Pruning ------------------------------------------------------------------------------------------


def test_old_lines_go_from_every_chain_that_nobody_writes(log: Path) -> None:
    """The first chain keeps its newest file, which the next proxy continues."""
    now = MOMENT // 1000 + 3600 * 10**6
    trial = prune(log, KEY, Retention(before=now), by="root", now=now, is_trial=True)
    assert trial.files == ("chains/0002/audit-000001.jsonl", "chains/0003/audit-000001.jsonl")
    assert len(sound_log(log).chains) == 3
    done = prune(log, KEY, Retention(before=now), by="root", now=now)
    assert done == trial
    assert record_pruning(log, KEY, Clock())
    assert [kinds(log / f"chains/000{number}") for number in (2, 3)] == [["rotated", "pruned"]] * 2
    sound_log(log)
    # Nothing is left that could go, however often it is asked for.
    assert prune(log, KEY, Retention(before=now * 2), by="root", now=now).files == ()
    with Index(log, reserve=0) as index:
        index.catch_up()
        assert len(index.query(Filters(event="exchange")).entries) == 4


def test_a_chain_that_a_proxy_writes_keeps_its_newest_file(log: Path) -> None:
    held = [open_log(log, KEY, clock=Clock(), in_flight=8) for _ in range(2)]
    now = MOMENT // 1000 + 3600 * 10**6
    found = prune(log, KEY, Retention(before=now), by="root", now=now)
    assert found.files == ("chains/0003/audit-000001.jsonl",)
    for sink in held:
        sink.event("stopped")
        sink.close()
    sound_log(log)


def test_a_bound_of_size_is_that_of_all_chains_and_the_oldest_files_go_first(tmp_path: Path) -> None:
    runs = Runs(tmp_path, 2, rotate_at=1)
    for number in range(6):
        runs.exchange(number % 2, f"r-{number}")
    runs.close()
    paths = sorted(tmp_path.rglob("audit-*.jsonl"), key=lambda path: (path.name, str(path)))
    for number, path in enumerate(paths):
        os.utime(path, ns=(number * SECOND, number * SECOND))
    sizes = [path.stat().st_size for path in paths]
    found = prune(tmp_path, KEY, Retention(size=sum(sizes) - sum(sizes[:3])), by="root", now=0)
    assert sorted(found.files) == sorted(str(path.relative_to(tmp_path)) for path in paths[:3])
    assert found.kept == sum(sizes[3:])
    sound_log(tmp_path)


def test_a_number_of_files_is_that_of_each_chain(tmp_path: Path) -> None:
    runs = Runs(tmp_path, 2, rotate_at=1)
    for number in range(8):
        runs.exchange(number % 2, f"r-{number}")
    runs.close()
    prune(tmp_path, KEY, Retention(files=2), by="root", now=0)
    assert [len(list((tmp_path / name).glob("audit-*"))) for name in (".", "chains/0002")] == [2, 2]
    sound_log(tmp_path)


def test_damage_of_any_chain_keeps_all_of_the_log(log: Path) -> None:
    (log / "chains/register").unlink()
    with pytest.raises(ContentError, match="is damaged"):
        prune(log, KEY, Retention(before=1 << 60), by="root", now=0)
    assert len(list(LogFiles.of(log))) == 3


def test_runs_of_older_versions_are_seen_and_can_be_pruned(log: Path) -> None:
    sink = opened(log / "../runs/4f2a9c1e/audit", Clock(MOMENT + 5_500_000_000))
    sink.exchange(None, RECORD, replace(FACTS, request="old"))
    sink.close()
    with Index(log, reserve=0) as index:
        index.catch_up()
        shown = names(index.query(Filters()).entries)
        assert shown.index("r-5") < shown.index("old") < shown.index("r-4")
        assert index.stats(Filters()).total.requests == 13
    assert len(sound_log(log).chains) == 4
    found = prune(log, KEY, Retention(before=1 << 60), by="root", now=0)
    assert "../runs/4f2a9c1e/audit/audit-000001.jsonl" in found.files
    sound_log(log)


# The order ------------------------------------------------------------------------------------------

STEP = st.tuples(st.integers(0, 2), st.sampled_from((0.0, 0.5, 1.0, -3.0, 100.0, -200.0)), st.booleans())
FILTER = st.sampled_from(
    [Filters(), Filters(verdict="deny"), Filters(run="run-1"), Filters(grep="r-1"), Filters(run="none")]
)


def by_hand(log: Path) -> dict[int, list[LogEntry]]:
    """The lines of each chain, read without an index."""
    found: dict[int, list[LogEntry]] = {}
    for file in LogFiles.of(log):
        at = 0
        for line in file.path.read_bytes().split(b"\n")[:-1]:
            with suppress(NotALineError):
                found.setdefault(file.chain.number, []).append(parse(line, file.number, at))
            at += len(line) + 1
    return found


@pytest.mark.timeout(1200)
@settings(max_examples=examples(40), deadline=None)
@example(
    # A page ended in a chain before its own first line, and the next page showed a line again.
    steps=[(0, 0.0, False)] * 6 + [(0, 0.0, True), (1, 0.0, True), (1, -3.0, True), (0, 0.5, True)],
    filters=Filters(verdict="deny"),
    size=1,
    block=3,
    budget=0,
)
@example(
    # A newer block without a wanted line put an older one of its chain behind the pages that were shown.
    steps=[(0, 0.0, False)] * 18 + [(1, 0.0, False)] * 2 + [(1, -3.0, False)],
    filters=Filters(grep="r-1"),
    size=1,
    block=2,
    budget=0,
)
@given(
    steps=st.lists(STEP, max_size=30),
    filters=FILTER,
    size=st.integers(1, 5),
    block=st.integers(1, 6),
    budget=st.sampled_from((0, 2000, 1 << 28)),
)
def test_chains_are_merged_by_time_whatever_the_clock_does(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, float, bool]],
    filters: Filters,
    size: int,
    block: int,
    budget: int,
) -> None:
    log = tmp_path_factory.mktemp("log")
    with (
        patch("egress.review.blocks.MOST_LINES", block),
        patch(
            "egress.review.search.IndexSearch.entries.__kwdefaults__", {"is_forward": False, "budget": budget}
        ),
    ):
        runs = Runs(log, 3, rotate_at=3000)
        for number, (run, after, is_denied) in enumerate(steps):
            runs.exchange(run, f"r-{number}", is_denied=is_denied, after=after)
        runs.close()
        if not steps:
            return
        with Index(log, reserve=0) as index:
            index.catch_up()
            found = paged(index, filters, size)
    right = {chain: [e for e in lines if filters.admits(e)] for chain, lines in by_hand(log).items()}
    # Every line once, and each chain in its order, newest first.
    assert len(found) == sum(map(len, right.values()))
    for chain, lines in right.items():
        assert [entry for entry in found if entry.file >> 40 == chain - 1] == lines[::-1]
    # As long as no clock went back, that is the order of time.
    if all(after >= 0 for _, after, _ in steps):
        assert [entry.moment for entry in found] == sorted((entry.moment for entry in found), reverse=True)
