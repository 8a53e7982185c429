"""Processes that open one log at the same time: none fails, none waits, and a kill of one costs no other."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from egress.review import Filters, Index
from tests.unit.audit.chained_log import sound_log

ROOT = Path(__file__).parents[2]
# Each waits for a line before each step, so that all of them take it together.
WRITES = """
import sys
from dataclasses import replace
from pathlib import Path
from egress.audit import open_log
from egress.proxy.clock import SystemClock
from tests.unit.audit.sample import FACTS, KEY, OPENING, RECORD

log, run = Path(sys.argv[1]), sys.argv[2]
print("there", flush=True)
sys.stdin.readline()
sink = open_log(log, KEY, clock=SystemClock(), run=run, in_flight=64)
sink.event("started", version="1", policy="x", files="hosts.yaml", chains=sink.chains)
print("open", flush=True)
sys.stdin.readline()
for number in range(20):
    ticket = sink.begin(replace(OPENING, request=f"{run}.{number}"))
    sink.exchange(ticket, RECORD, replace(FACTS, request=f"{run}.{number}"))
    sink.flush()
under_way = sink.begin(replace(OPENING, request=f"{run}.last"))
print("wrote", flush=True)
sys.stdin.readline()
sink.exchange(under_way, RECORD, replace(FACTS, request=f"{run}.last"))
sink.close()
"""


def started(log: Path, count: int, round_: str = "a") -> list[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    return [
        subprocess.Popen(
            [sys.executable, "-c", WRITES, str(log), f"{round_}-{number}"],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            cwd=ROOT,
        )
        for number in range(count)
    ]


def step(running: Sequence[subprocess.Popen[str]], told: str) -> None:
    """Wait until all have come so far, then let all go on."""
    for process in running:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        assert line == f"{told}\n", process.stderr.read()
    for process in running:
        assert process.stdin is not None
        process.stdin.write("on\n")
        process.stdin.flush()


def ended(running: Sequence[subprocess.Popen[str]]) -> list[int]:
    found = []
    for process in running:
        process.communicate()
        found.append(process.returncode)
    return found


def test_any_number_opens_one_log_at_once_and_later_ones_share_its_chains(tmp_path: Path) -> None:
    for round_ in ("a", "b"):
        running = started(tmp_path, 8, round_)
        for told in ("there", "open", "wrote"):
            step(running, told)
        assert ended(running) == [0] * 8
    found = sound_log(tmp_path)
    assert len(found.chains) == 8
    assert found.lines == 2 * 8 * 22
    with Index(tmp_path, reserve=0) as index:
        index.catch_up()
        page = index.query(Filters(), 1000).entries
        assert len(page) == found.lines
        times = [entry.moment for entry in page]
        assert times == sorted(times, reverse=True)
        assert len(index.values("run")) == 16


def test_a_kill_of_one_of_several_costs_no_other_and_nothing_is_lost(tmp_path: Path) -> None:
    running = started(tmp_path, 3)
    for told in ("there", "open"):
        step(running, told)
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "wrote\n"
    running[1].send_signal(signal.SIGKILL)
    running[1].communicate()
    rest = [running[0], running[2]]
    sound_log(tmp_path)
    # A further one starts while the others still write, and tells what was under way.
    fourth = started(tmp_path, 1, "b")
    for told in ("there", "open", "wrote"):
        step(fourth, told)
    assert ended(fourth) == [0]
    for process in rest:
        assert process.stdin is not None
        process.stdin.write("on\n")
    assert ended(rest) == [0, 0]
    found = sound_log(tmp_path)
    assert len(found.chains) == 3
    with Index(tmp_path, reserve=0) as index:
        index.catch_up()
        (lost,) = index.query(Filters(event="lost")).entries
        assert (lost.request, lost.text("run")) == ("a-1.last", "b-0")
        for run in ("a-0", "a-2", "b-0"):
            assert index.stats(Filters(run=run, event="exchange")).total.requests == 21
        assert index.stats(Filters(run="a-1")).total.requests == 20


def test_a_stopped_one_holds_nobody_up(tmp_path: Path) -> None:
    """As a frozen container does, or a debugger."""
    running = started(tmp_path, 1)
    for told in ("there", "open"):
        step(running, told)
    running[0].send_signal(signal.SIGSTOP)
    try:
        others = started(tmp_path, 2, "b")
        for told in ("there", "open", "wrote"):
            step(others, told)
        assert ended(others) == [0, 0]
        sound_log(tmp_path)
    finally:
        running[0].send_signal(signal.SIGCONT)
    step(running, "wrote")
    assert ended(running) == [0]
    assert sound_log(tmp_path).lines == 3 * 22
