"""Many runs at once: 40 `egress run -- true` in namespaces, each with its own proxy, and one record of all.

It ends with an error unless every run succeeds and is in the record by an id of its own, in the order of
time, in a log that verifies. What it prints are ratios: runs at once against one run, a log of several chains
against a log of one chain with the same lines, and the lock of a chain against a lock that all proxies would
share. The last two are ratios of processor time, which other work on the machine changes little.

    EGRESS_BENCH_RUNS=10 python -m bench many_runs
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.audit import KEY
from bench.review import WeekClock, bodies
from egress.audit import open_log
from egress.review import Filters, Index
from egress.runtime.errors import UnsupportedError
from egress.runtime.namespace import kernel_support

Row = tuple[str, float, str, float | None]

RUNS = int(os.environ.get("EGRESS_BENCH_RUNS", "40"))
ALONE = 3
"""Runs by themselves, the best of which the others are compared with."""
CHAINS = 20
LINES = 100_000
ROUNDS = 5
_SANDBOX = re.compile(r'"sandbox":"agent-([0-9]+)"')
RULES = "version: 1\nhosts:\n  api.example.com: {allow: all}\n"


def run() -> Iterator[Row]:
    yield from _locks()
    yield from _chains()
    try:
        kernel_support.check()
    except UnsupportedError as error:
        print(f"  namespaces: {error.message}; {error.hint}", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory(prefix="egress-bench-") as folder:
        yield from Machine(Path(folder)).rows()


# Runs ---------------------------------------------------------------------------------------------


class Machine:
    """A user of a machine, with rules and a state folder."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._log = home / "state/egress/audit"
        variables = {"HOME": home, "XDG_STATE_HOME": home / "state", "XDG_RUNTIME_DIR": home / "run"}
        self._environ = {"PATH": os.environ["PATH"], **{name: str(path) for name, path in variables.items()}}
        rules = home / ".config/egress/hosts.yaml"
        for path in (rules.parent, home / "run"):
            path.mkdir(parents=True)
        rules.write_text(RULES)

    def rows(self) -> Iterator[Row]:
        alone = []
        for _ in range(ALONE):
            began = time.perf_counter()
            self._ended([self._started()])
            alone.append(time.perf_counter() - began)
        began = time.perf_counter()
        self._ended([self._started() for _ in range(RUNS)])
        took = time.perf_counter() - began
        self._check_record(ALONE + RUNS)
        yield (f"runs at once that succeeded, of {RUNS}", RUNS, "", RUNS)
        yield ("  all of them, in times of one alone", took / min(alone), "x", None)
        yield ("  each of them, in times of one alone", took / RUNS / min(alone), "x", None)
        files = [path for path in self._log.parent.rglob("*") if path.is_file()]
        kept = sum(path.stat().st_blocks * 512 for path in files)
        yield ("  left behind by each", kept / (ALONE + RUNS) / 1024, "KiB", None)

    def _started(self) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "egress", "run", "--runtime", "namespace", "--", "true"]
        pipe = subprocess.PIPE
        return subprocess.Popen(words, env=self._environ, stdout=pipe, stderr=pipe, text=True)

    def _ended(self, running: Sequence[subprocess.Popen[str]]) -> None:
        for process in running:
            out, errors = process.communicate()
            if process.returncode or out:
                sys.exit(f"many_runs: a run ended with {process.returncode}: {out}{errors}")

    def _egress(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "egress", *words],
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"many_runs: egress {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def _check_record(self, runs: int) -> None:
        """End with an error unless one log has every run, in order, and verifies."""
        found = self._egress("log", "query", "--event", "sandbox.added", "--limit", "1000", "--json")
        lines = [json.loads(line) for line in found.splitlines()]
        times = [line["time"] for line in lines]
        if len({line["run"] for line in lines}) != runs or times != sorted(times, reverse=True):
            sys.exit(f"many_runs: {len(lines)} runs of {runs} are in the record, or not in order")
        self._egress("log", "verify")


# A log of many chains ---------------------------------------------------------------------------


def _chains() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="egress-bench-") as folder:
        one, many = Path(folder, "one"), Path(folder, "many")
        for log, count in ((one, 1), (many, CHAINS)):
            _write(log, count)
        with Index(one) as known, Index(many) as other:
            yield (
                f"{CHAINS} chains against one: lines indexed",
                _ratio(other.catch_up, known.catch_up, 1),
                "x",
                None,
            )
            for name, filters in (
                ("newest lines", Filters()),
                ("denied of one sandbox", Filters(sandbox="agent-19", verdict="deny")),
                ("text that is nowhere", Filters(grep="no-such-text")),
            ):
                pages = [partial(index.query, filters, 50) for index in (other, known)]
                yield (f"  first page: {name}", _ratio(pages[0], pages[1]), "x", None)
            numbers = [partial(index.stats, Filters(), "host") for index in (other, known)]
            yield ("  numbers by host", _ratio(numbers[0], numbers[1]), "x", None)


def _write(log: Path, count: int) -> None:
    """The same lines by one proxy, or by several: each sandbox belongs to one of them."""
    clock = WeekClock()
    sinks = [open_log(log, KEY, clock=clock, run=f"run-{number}", in_flight=8) for number in range(count)]
    writers = [sink._writer for sink in sinks]  # noqa: SLF001 - lines as they are, quicker than by a proxy
    for body in bodies(LINES, clock):
        found = _SANDBOX.search(body)
        writers[int(found[1]) % count if found else 0].add(body)
    for sink in sinks:
        sink.close()


def _ratio(job: Callable[[], object], other: Callable[[], object], times: int = 20) -> float:
    """How much more processor time one job takes than another: the best of some rounds of each, in turns."""
    found = [(_cpu(job, times), _cpu(other, times)) for _ in range(1 if times == 1 else ROUNDS)]
    return min(first for first, _ in found) / min(second for _, second in found)


def _cpu(job: Callable[[], object], times: int) -> float:
    return timeit.Timer(job, timer=time.process_time).timeit(times)


# A lock that all proxies would share --------------------------------------------------------------


def _locks() -> Iterator[Row]:
    """What a flush of one line costs, and what it would cost with a lock and a look at the head each time."""
    with tempfile.TemporaryDirectory(prefix="egress-bench-") as folder:
        clock = WeekClock()
        sink = open_log(Path(folder), KEY, clock=clock, in_flight=8)
        writer, body = sink._writer, next(iter(bodies(1, clock)))  # noqa: SLF001 - as above
        shared = os.open(f"{folder}/chains", os.O_RDONLY)
        head = os.open(f"{folder}/head", os.O_RDONLY)

        def flush() -> None:
            writer.add(body)
            sink.flush()

        def locked() -> None:
            fcntl.flock(shared, fcntl.LOCK_EX)
            os.pread(head, 152, 0)
            flush()
            fcntl.flock(shared, fcntl.LOCK_UN)

        yield ("a flush under a shared lock, against one without", _ratio(locked, flush, 2000), "x", None)
        sink.close()
        for descriptor in (shared, head):
            os.close(descriptor)
