"""Rounds, medians, and the table."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from bench.proxy import job as jobs
from bench.proxy.contestants import CONTESTANTS, Contestant, Running
from bench.proxy.job import Job, LoadError, Result
from bench.proxy.process import NotReadyError, can_pin
from bench.proxy.setting import API, CREDENTIAL, EVENTS, HTTP2, TUNNEL, Setting
from bench.proxy.upstream import upstream

ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Pace:
    """How long each measurement takes."""

    rounds: int
    seconds: float


FULL, QUICK = Pace(ROUNDS, 2.0), Pace(1, 0.7)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table: one figure of one job."""

    row: str
    what: str
    figure: str
    digits: int = 0
    faster: bool = False
    """More is better."""
    plain: bool = False
    """No ratio is shown."""


LINES = (
    Line("keepalive", "**keep-alive**, 32 connections: CPU us per request", "cpu_us"),
    Line("keepalive", "keep-alive: requests per second", "rate", faster=True),
    Line("keepalive", "keep-alive: p50 ms", "p50_ms", 2),
    Line("keepalive", "keep-alive: p99 ms", "p99_ms", 2),
    Line("keepalive", "keep-alive: share of its core the proxy used", "cpu_share", 2, plain=True),
    Line("connect", "**new connections**: CPU us each", "cpu_us"),
    Line("connect", "new connections per second", "rate", faster=True),
    Line("connect", "new connections: share of its core the proxy used", "cpu_share", 2, plain=True),
    Line("resume", "**new connections, resuming TLS**: CPU us each", "cpu_us"),
    Line("resume", "resuming: per second", "rate", faster=True),
    Line("resume", "resuming: share that resumed", "resumed", 2, plain=True),
    Line("download", "**100 MB**: CPU ms", "cpu_ms"),
    Line("download", "100 MB: MB per second", "rate", faster=True),
    Line("download", "100 MB: peak memory above idle, MB", "peak_mb", 1),
    Line("http2", "**HTTP/2**, 32 streams: CPU us per request", "cpu_us"),
    Line("http2", "HTTP/2: requests per second", "rate", faster=True),
    Line("tunnel", "**tunnel**, 32 connections: CPU us per round trip", "cpu_us"),
    Line("tunnel", "tunnel: round trips per second", "rate", faster=True),
    Line("tunnel-download", "**100 MB through the tunnel**: CPU ms", "cpu_ms"),
    Line("tunnel-download", "100 MB through the tunnel: MB per second", "rate", faster=True),
    Line("events", "**200 streams of events**: CPU us per event", "cpu_us"),
    Line("events", "events: delay p50 ms", "p50_ms", 2),
    Line("events", "events: delay p99 ms", "p99_ms", 2),
)


def rows(setting: Setting, pace: Pace) -> dict[str, Job]:
    """The jobs by row, as they go to the upstream directly."""

    def at(kind: jobs.Kind, name: str, **more: object) -> Job:
        job = Job(kind, name, setting.ports.of(name), str(setting.ca), pace.seconds, credential=CREDENTIAL)
        return replace(job, **more)  # type: ignore[arg-type]  # the names are checked at once

    return {
        "keepalive": at("keepalive", API),
        "connect": at("connect", API),
        "resume": at("connect", API, resume=True),
        "download": at("download", API, target=setting.big),
        "http2": at("http2", HTTP2),
        "tunnel": at("keepalive", TUNNEL),
        "tunnel-download": at("download", TUNNEL, target=setting.big),
        "events": at("events", EVENTS, target="/sse?n=100000&every=0.25", connections=200),
    }


def through(job: Job, running: Running) -> Job:
    """The same job through a proxy, which injects what a tunnel has to bring itself."""
    if job.name == TUNNEL:
        return replace(job, proxy=running.port, pid=running.pid)
    return replace(job, proxy=running.port, pid=running.pid, ca=str(running.ca), credential="")


class Comparison:
    """All results of a run."""

    def __init__(self, setting: Setting, pace: Pace) -> None:
        self._setting = setting
        self._pace = pace
        self._jobs = rows(setting, pace)
        self._results: dict[tuple[str, str], list[Result]] = {}
        self._direct: dict[str, Result] = {}
        self._said: dict[str, str] = {}

    def run(self) -> None:
        for row, job in self._jobs.items():
            self._direct[row] = jobs.run(job, self._setting.folder / "load.log")
        for number in range(self._pace.rounds):
            # Whoever comes first in one round comes last in the next.
            for contestant in CONTESTANTS[:: -1 if number % 2 else 1]:
                self._round(contestant)

    def _round(self, contestant: Contestant) -> None:
        if contestant.name in self._said:
            return
        try:
            with contestant.running(self._setting) as running:
                for row in contestant.only or self._jobs:
                    self._measure(contestant, row, running)
        except NotReadyError as error:
            self._say(contestant.name, f"{contestant.name} is left out: {error}")

    def _measure(self, contestant: Contestant, row: str, running: Running) -> None:
        key = f"{contestant.name}, {row}"
        if key in self._said:
            return
        try:
            found = jobs.run(through(self._jobs[row], running), self._setting.folder / "load.log")
        except LoadError as error:
            self._say(key, f"{key}: not measured: {error}")
            return
        self._results.setdefault((contestant.name, row), []).append(found)

    def _say(self, key: str, text: str) -> None:
        self._said[key] = text

    # The report -----------------------------------------------------------------------------------

    def report(self) -> str:
        names = [each.name for each in CONTESTANTS if any(each.name == name for name, _ in self._results)]
        head = f"| | {' | '.join([*names, 'no proxy'])} |"
        rule = f"|---|{'---:|' * (len(names) + 1)}"
        body = [self._line(line, names) for line in LINES]
        return "\n".join([*self._preface(), "", head, rule, *body, "", *self._said.values()]).rstrip()

    def _preface(self) -> list[str]:
        pace = self._pace
        rounds = "One round" if pace.rounds == 1 else f"Medians of {pace.rounds} rounds"
        found = [
            f"Upstream: {self._setting.upstream}. {rounds} of {pace.seconds:g} s.",
            f"In brackets: times better than {CONTESTANTS[0].name}. Rates and delays are wall time: the load",
            "and the upstream limit them where the proxy did not use all of its core.",
        ]
        if not can_pin():
            found.append("There is one core only: proxy, load and upstream share it.")
        return found

    def _line(self, line: Line, names: list[str]) -> str:
        cells = [self._cell(line, name) for name in names]
        direct = self._direct.get(line.row, {})
        shown = line.figure in direct and not line.figure.startswith(("cpu", "peak"))
        cells.append(f"{direct[line.figure]:,.{line.digits}f}" if shown else "")
        return f"| {line.what} | {' | '.join(cells)} |"

    def _cell(self, line: Line, name: str) -> str:
        value = self._median(line, name)
        if value is None:
            return ""
        text = f"{value:,.{line.digits}f}"
        measure = self._median(line, CONTESTANTS[0].name)
        if line.plain or not measure or value <= 0:
            return text
        return f"{text} ({value / measure if line.faster else measure / value:.1f})"

    def _median(self, line: Line, name: str) -> float | None:
        found = self._results.get((name, line.row))
        return median(result[line.figure] for result in found) if found else None


def table(*, quick: bool = False) -> str:
    """Measure everything and return a Markdown table; what could not be measured is said below it."""
    if not Path("/proc/self/stat").exists():
        return "not measured: the CPU of a process is read from /proc, which only Linux has"
    with tempfile.TemporaryDirectory(prefix="bench-proxy-") as folder:
        try:
            with upstream(Path(folder)) as setting:
                comparison = Comparison(setting, QUICK if quick else FULL)
                comparison.run()
                return comparison.report()
        except (NotReadyError, LoadError) as error:
            return f"not measured: {error}"
