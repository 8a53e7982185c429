"""Runs the tests in pools, says where time went, and tries again what failed where that is allowed.

    python -m scripts.gate [--jobs N] [--second-try] [--budget] [ARGUMENTS OF PYTEST]

Tests that compute run beside tests that wait, and take the time that these leave. Those that wait have more
workers than there are processors, and all tests of a file have the same one, because they share what the file
has started. Workers are processes of pytest that take files from a queue (tests/file_queue.py). The last
lines are a table: what each pool and each folder took, and the slowest files.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

ROOT: Final = Path(__file__).parents[1]
RECORDS: Final = ROOT / ".cache/durations"
BUDGET: Final = ROOT / "tests/budget.toml"
PYTEST: Final = (sys.executable, "-m", "pytest", "-q", "--inline-snapshot=disable")
NOTHING_COLLECTED: Final = 5
PROGRESS_SECONDS: Final = 30
SLOWEST: Final = 20
MACHINES_DIFFER: Final = 2.0
"""A file above its budget is named; at so many times its budget it fails: a busy machine is not that slow."""
HARM: Final = ROOT / ".cache/harm"
"""Where tests write down that the proxy has done harm: a leak that comes once in two runs is a leak."""
NEVER_AGAIN: Final = ("tests/property/", "tests/attack/", "tests/unit/audit/")
"""Where a failure that goes away is a failure all the same."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Tests that run side by side, with so many workers for each processor."""

    name: str
    workers: float
    at_once: int = 1
    """How many files a worker takes from the queue: finding a short one costs more than running it."""
    is_known_whole: bool = False
    """Whether each worker has to know all tests: then pytest-xdist shares them out."""

    def count(self, processors: int) -> int:
        """How many workers."""
        return max(1, round(self.workers * processors))


BESIDE: Final = Pool("computing", 1, at_once=20)
"""It runs beside all others."""
IN_TURN: Final = (Pool("catalogue", 1, is_known_whole=True), Pool("waiting", 2.5))
"""The catalogue leaves most of the processors to what computes beside it: at the end that would be over."""
POOLS: Final = (BESIDE, *IN_TURN)
BY_XDIST: Final = ("--dist", "loadfile", "--no-loadscope-reorder")
"""What takes long has few tests and begins first; xdist would begin with the files that have most tests."""
BY_QUEUE: Final = ("-n", "0", "-o", "console_output_style=classic")
"""A worker knows the percentage of nothing but what it has taken so far."""
IS_NIGHT: Final = os.environ.get("EGRESS_TEST_TIER") == "nightly"
"""Then a file may take as long as it likes, and a test that tries thousands of examples an hour."""
AT_NIGHT: Final = ("--timeout", "3600")


@dataclass(slots=True)
class Took:
    """What some tests took: seconds of waiting for them, and of processors."""

    tests: int = 0
    seconds: float = 0.0
    processor: float = 0.0

    def add(self, other: Took) -> None:
        self.tests += other.tests
        self.seconds += other.seconds
        self.processor += other.processor


@dataclass(slots=True)
class Result:
    """How a pool went."""

    status: int
    wall: float
    processor: float
    files: dict[str, Took] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    @classmethod
    def of_workers(cls, found: Sequence[Result], wall: float) -> Result:
        """That of a pool; a worker that found nothing left to take says nothing about it."""
        statuses = {each.status for each in found} - {NOTHING_COLLECTED} or {NOTHING_COLLECTED}
        # Anything but failed tests, such as a process that was killed, is the worst.
        worst = next(iter(statuses - {0, 1}), max(statuses))
        whole = cls(worst, wall, sum(each.processor for each in found))
        for each in found:
            whole.files |= each.files
            whole.failed += each.failed
        return whole


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="gate", allow_abbrev=False)
    parser.add_argument("--jobs", type=int, default=0, help="workers of every pool, not as many as suit it")
    parser.add_argument("--second-try", action="store_true", help="run again what failed")
    parser.add_argument("--budget", action="store_true", help="fail when a file took more than its budget")
    given, rest = parser.parse_known_args(words)
    HARM.parent.mkdir(exist_ok=True)
    HARM.unlink(missing_ok=True)
    # Before anything else: what a run left that was killed.
    subprocess.run([sys.executable, "-m", "tests.runtime.leftovers"], cwd=ROOT, check=False)
    results = run_all(given.jobs, rest)
    status = judge(results, lambda failed: again(failed, rest), is_second=given.second_try)
    if is_harm():
        print("\n-- harm was done, which no second try makes good", HARM.read_text(), sep="\n")
        status = 1
    print("\n".join(table(results)))
    files = {name: took for result in results.values() for name, took in result.files.items()}
    budget = Budget.read(BUDGET)
    if not IS_NIGHT and (over := list(budget.exceeded(files))):
        print("\n-- above their budget in tests/budget.toml:", *over, sep="\n  ")
    if not IS_NIGHT and (far := list(budget.exceeded(files, MACHINES_DIFFER))):
        print(
            f"\n-- and so far above it that no machine explains it ({MACHINES_DIFFER:g} times):",
            *far,
            sep="\n  ",
        )
        status = status or int(given.budget)
    return status


def is_harm() -> bool:
    return HARM.is_file() and HARM.stat().st_size > 0


def judge(results: Mapping[str, Result], again: Callable[[list[str]], int], *, is_second: bool) -> int:
    """The status of all pools; what failed is run `again` where it may be."""
    statuses = {result.status for result in results.values()}
    if statuses <= {0, NOTHING_COLLECTED}:
        return min(statuses)
    failed = [test for result in results.values() for test in result.failed]
    # Anything but a failed test, such as a file that cannot be read, stays what it is.
    if not is_second or not failed or statuses - {0, 1, NOTHING_COLLECTED} or is_harm():
        return 1
    final = [test for test in failed if not may_be_tried_again(test)]
    if final:
        print("\n-- there is no second try for these:", *final, sep="\n  ")
        return 1
    return again(failed)


def run_all(jobs: int, rest: Sequence[str]) -> dict[str, Result]:
    """Run every pool to its end: with one job in turn, else one of them beside the others."""
    if jobs == 1:
        return {pool.name: Running(pool, jobs, rest).result() for pool in POOLS}
    beside = Running(BESIDE, jobs, rest)
    results = {pool.name: Running(pool, jobs, rest).result() for pool in IN_TURN}
    return {**results, BESIDE.name: beside.result()}


class Running:
    """A pool at work. What its processes print comes at their end, unless there is one job alone."""

    def __init__(self, pool: Pool, jobs: int, rest: Sequence[str]) -> None:
        self._pool = pool
        count = jobs or pool.count(os.cpu_count() or 1)
        self._queue = RECORDS / f"{pool.name}.queue"
        self._queue.unlink(missing_ok=True)
        RECORDS.mkdir(parents=True, exist_ok=True)
        command = [*PYTEST, "--pool", pool.name, *(AT_NIGHT if IS_NIGHT else ()), *rest]
        if pool.is_known_whole:
            command += ["-n", str(count - (count == 1)), *BY_XDIST]
            count = 1
        else:
            command += [*BY_QUEUE, "--queue", str(self._queue), "--at-once", str(pool.at_once)]
        print(f"\n-- {pool.name}: {count} processes" if count > 1 else f"\n-- {pool.name}", flush=True)
        self._begun = time.monotonic()
        self._is_told_live = jobs == 1
        self._workers = [self._start(command, place) for place in range(count)]

    def _start(self, command: Sequence[str], place: int) -> tuple[subprocess.Popen[bytes], Path, IO[bytes]]:
        record = RECORDS / f"{self._pool.name}-{place}.json"
        record.unlink(missing_ok=True)
        told = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed where it is read
        output = None if self._is_told_live else told
        started = subprocess.Popen(
            [*command, "--times", str(record)], cwd=ROOT, env=_environment(), stdout=output, stderr=output
        )
        return started, record, told

    def result(self) -> Result:
        """Wait for the end of all its processes, and say twice a minute how far they are."""
        told = time.monotonic()
        while not all(_has_ended(process) for process, _, _ in self._workers):
            time.sleep(0.2)
            if time.monotonic() - told > PROGRESS_SECONDS and self._queue.is_file():
                told = time.monotonic()
                left = self._queue.read_text(encoding="utf-8").count("\n")
                print(f"-- {self._pool.name}: {left} files to begin", flush=True)
        found = [self._ended(*worker) for worker in self._workers]
        wall = time.monotonic() - self._begun
        return Result.of_workers(found, wall)

    def _ended(self, process: subprocess.Popen[bytes], record: Path, told: IO[bytes]) -> Result:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        result = Result(process.returncode, 0.0, used.ru_utime + used.ru_stime)
        with told:
            told.seek(0)
            text = told.read().decode("utf-8", "replace")
        if text:
            print(f"\n-- {self._pool.name}, as {record.stem} told it", text, sep="\n", flush=True)
        if record.is_file():
            written = json.loads(record.read_text(encoding="utf-8"))
            result.files = {name: Took(int(took[0]), *took[1:]) for name, took in written["files"].items()}
            result.failed = written["failed"]
        return result


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _environment() -> dict[str, str]:
    """That of this process. What is compiled is written down, or each worker would compile all tests anew."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "EGRESS_TEST_HARM": str(HARM)}


# A second try ---------------------------------------------------------------------------------------


def may_be_tried_again(test: str) -> bool:
    """Whether what failed may have failed for want of time alone."""
    return not test.startswith(NEVER_AGAIN) and "guard" not in test


def again(failed: Sequence[str], rest: Sequence[str]) -> int:
    """Run what failed once more and by itself; the status. What passes now is counted and named."""
    print(f"\n-- second try: {len(failed)} failed", *failed, sep="\n  ", flush=True)
    options = [word for word in rest if word.startswith("-")]
    command = [*PYTEST, "-n", "0", *options, *failed]
    status = subprocess.run(command, cwd=ROOT, env=_environment(), check=False).returncode
    if status == 0:
        print(f"-- second try: {len(failed)} passed that had failed: find out why, and mend them")
    return status


# The budget -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Budget:
    """Seconds of processor time for each file. Waiting is free: a busy machine makes everything wait."""

    seconds: float
    files: Mapping[str, float]

    @classmethod
    def read(cls, path: Path) -> Budget:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        return cls(found["seconds"], {name: entry["seconds"] for name, entry in found["files"].items()})

    def exceeded(self, files: Mapping[str, Took], times: float = 1.0) -> Iterable[str]:
        """A line for each file that took more than so many times its budget."""
        for name, took in files.items():
            most = self.files.get(name, self.seconds)
            if took.processor > most * times:
                yield f"{name}: {took.processor:.0f} s of processor time, and its budget is {most:.0f}"


# What it took ---------------------------------------------------------------------------------------


def table(results: Mapping[str, Result]) -> Iterable[str]:
    """Pools, folders and the slowest files, each with what it took."""
    files: dict[str, Took] = {}
    yield ""
    yield _row("pool", "tests", "wall", "processor")
    for name, result in results.items():
        count = sum(took.tests for took in result.files.values())
        yield _row(name, str(count), f"{result.wall:.0f}", f"{result.processor:.0f}")
        files |= result.files
    folders: dict[str, Took] = defaultdict(Took)
    for name, took in files.items():
        folders[folder(name)].add(took)
    for title, rows in (
        ("folder", _slowest(folders)),
        ("slowest files", _slowest(files)[:SLOWEST]),
    ):
        yield ""
        yield _row(title, "tests", "seconds", "processor")
        for name, took in rows:
            yield _row(name, str(took.tests), f"{took.seconds:.1f}", f"{took.processor:.1f}")


def folder(file: str) -> str:
    """The room of tests that a file is in: `tests/unit`, and of larger ones the room below."""
    parts = file.split("/")[:-1]
    return "/".join(parts[:3] if parts[1:2] != ["unit"] else parts[:2])


def _slowest(found: Mapping[str, Took]) -> list[tuple[str, Took]]:
    return sorted(found.items(), key=lambda row: -row[1].seconds)


def _row(name: str, *columns: str) -> str:
    return f"{name:<60}" + "".join(f"{column:>11}" for column in columns)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
