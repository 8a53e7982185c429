"""The index and the log among processes: two at once, a kill at any moment, a proxy that goes on writing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from egress.audit.verify import verify
from egress.review import Filters, Index
from egress.review.entry import LogEntry
from tests.unit.audit.sample import KEY, NAME, files
from tests.unit.review.sample import Writing, write

ROOT = Path(__file__).parents[2]
CATCH_UP = """
import sys
from pathlib import Path
from egress.review import Index
import egress.review.indexer as filling, egress.review.blocks as blocks
filling.BLOCKS, blocks.MOST_LINES = 1, 64
with Index(Path(sys.argv[1]), reserve=0) as index:
    print(index.catch_up().lines, flush=True)
"""


def grown(log: Path, count: int) -> None:
    """Many lines, without waiting for the folding of refusals."""
    writing = Writing(log, rotate_at=200_000)
    for _ in range(count):
        writing.sink.refusal(NAME)
        writing.sink._folder._windows.clear()
    writing.close()


def started(log: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", CATCH_UP, str(log)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ})  # noqa: TID251


def lines(log: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in files(log))


def test_two_processes_never_write_one_index(tmp_path: Path) -> None:
    grown(tmp_path, 3000)
    both = [started(tmp_path) for _ in range(2)]
    told = [process.communicate()[0] for process in both]
    # Who came second may have found nothing to read yet; nobody left anything half done.
    assert f"{lines(tmp_path)}\n" in told
    with Index(tmp_path, reserve=0) as index:
        assert index.catch_up().lines == lines(tmp_path)
        assert index.stats(Filters(), "host").total.requests == 3000


def test_a_kill_at_any_moment_leaves_an_index_that_goes_on(tmp_path: Path) -> None:
    grown(tmp_path, 3000)
    for wait in (0.3, 0.4, 0.5, 0.6):
        process = started(tmp_path)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    with Index(tmp_path, reserve=0) as index:
        assert index.catch_up().lines == lines(tmp_path)
        assert index.stats(Filters(), "host").total.requests == 3000
        assert sum(numbers.requests for _, numbers in index.over_time(Filters())) == 3000


WRITES = """
import sys
from pathlib import Path
from tests.unit.review.sample import Writing

writing = Writing(Path(sys.argv[1]), rotate_at=60_000)
print("open", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2])):
    writing.exchange(f"n-{number}")
writing.sink.event("stopped", reason="asked")
writing.close()
"""
READS = """
import sys
from pathlib import Path
from egress.review import Filters, Index

rounds, told, newest = 0, "", 0
with Index(Path(sys.argv[1]), reserve=0) as index:
    print("open", flush=True)
    while told != "stopped":
        for filters in (Filters(), Filters(grep="a")) * 10:
            index.catch_up()
            rounds += 1
            page = index.query(filters, 40).entries
            numbers = [entry.seq for entry in page]
            first = numbers[0] if numbers else 0
            assert numbers == list(range(first, first - len(numbers), -1)), numbers
            assert first >= newest, "a line that was there is gone"
            newest = first
        every = [entry.seq for entry in index.each(Filters())]
        assert every == list(range(1, len(every) + 1)), "a gap, or a line twice"
        assert len(every) >= newest, "a line that was there is gone"
        newest, told = len(every), page[0].event if page else ""
    exchanges = [entry.request for entry in index.each(Filters(event="exchange"))]
    assert index.stats(Filters(), "host").total.requests == len(exchanges)
print(rounds, newest, len(set(exchanges)), len(exchanges))
"""
WRITTEN = 1500


def process(program: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def test_two_processes_read_while_a_third_writes(tmp_path: Path) -> None:
    """Again and again, until they see the end: no gap, no line twice, none that goes away, no error."""
    writer = process(WRITES, str(tmp_path), str(WRITTEN))
    assert writer.stdout is not None
    assert writer.stdout.readline() == "open\n"
    readers = [process(READS, str(tmp_path)) for _ in range(2)]
    for reader in readers:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "open\n"
    writer.communicate("go\n")
    told = [reader.communicate()[0].split() for reader in readers]
    assert [reader.returncode for reader in readers] == [0, 0]
    for _, newest, different, exchanges in told:
        assert int(newest) == lines(tmp_path)
        assert int(different) == int(exchanges) == WRITTEN
    assert len(files(tmp_path)) > 10
    assert verify(tmp_path, KEY).is_sound


def test_who_comes_and_goes_leaves_others_what_they_read_from(tmp_path: Path) -> None:
    """SQLite's last one out clears away what changes go through, which nobody may who is not the last."""
    writing = write(tmp_path, close=False)

    def reads_from() -> int:
        return (tmp_path / "index.sqlite3-shm").stat().st_ino

    with Index(tmp_path, reserve=0) as index:
        for number in range(3):
            writing.exchange(f"n-{number}")
            index.catch_up()
            assert index.query(Filters(event="exchange"), 1).entries[0].request == f"n-{number}"
            before = reads_from()
            writing.exchange(f"m-{number}")
            assert started(tmp_path).communicate()[0] == f"{lines(tmp_path)}\n"
            assert reads_from() == before
            assert index.query(Filters(event="exchange"), 1).entries[0].request == f"m-{number}"
    writing.close()


def test_readers_see_whole_lines_while_a_proxy_writes(tmp_path: Path) -> None:
    writing = write(tmp_path, rotate_at=5000, close=False)
    with Index(tmp_path, reserve=0) as one, Index(tmp_path, reserve=0) as other:
        for number in range(40):
            writing.exchange(f"n-{number}")
            for index in (one, other):
                index.catch_up()
                assert index.query(Filters(event="exchange"), 1).entries[0].request == f"n-{number}"
        found: list[LogEntry] = list(one.each(Filters()))
        assert [entry.seq for entry in found] == list(range(1, len(found) + 1))
    writing.close()
    assert verify(tmp_path, KEY).is_sound
