"""`python -m tests.soak`: half an hour of mixed traffic through a proxy as a process, and what came of it.

A line each ten seconds: memory, descriptors, requests that have ended, lines of the log, and how many
requests are lost, which is to be 0. At the end memory has to have stayed flat, every connection has to be
gone, and the log has to tell of each request exactly once. The exit status says so: 0, or 1.

    python -m tests.soak                    half an hour
    python -m tests.soak --seconds 300      five minutes

It is no part of the suite: a test beside it lets it run for some seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.faults.process_stats import descriptors, resident
from tests.faults.proxy_lab import ProxyLab
from tests.faults.seeded_random import SeededRandom
from tests.soak.memory_trend import MIB, Sample, judge_memory
from tests.soak.request_ledger import RequestLedger, Tail
from tests.soak.traffic import Traffic, half

HALF_AN_HOUR: Final = 1800.0
EVERY: Final = 10.0
SPARE: Final = 4
"""Descriptors that a proxy at rest may have more than at its start: files that it keeps open since."""
ROTATE, KEEP = "16MiB", "8"
"""Of the log: what was read is let go of."""
WORRIES: Final = ("connection.failed", "connection.unrecorded", "secret.failed", "proxy.broken")


@dataclass
class Watched(ProxyLab):
    """One whose requests are in the books."""

    books: RequestLedger = field(default_factory=RequestLedger)

    def saw(self, path: str) -> None:
        self.books.saw(path)


@dataclass
class Soak:
    """One run."""

    estate: Watched
    seconds: float
    began: float = field(default_factory=time.monotonic)
    samples: list[Sample] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def pid(self) -> int:
        return self.estate.served.process.pid

    async def run(self) -> bool:
        """Let all go on for its time; whether all is well."""
        estate, books = self.estate, self.estate.books
        estate.api.handle("/half", half)
        tail = Tail(estate.served.state / "audit")
        traffic = Traffic(estate, books, SeededRandom("soak"))
        await traffic.new_connection()
        at_rest = descriptors(self.pid)
        clients = asyncio.create_task(traffic.run())
        self.began = time.monotonic()
        printed = 0.0
        while (passed := time.monotonic() - self.began) < self.seconds and not clients.done():
            await asyncio.sleep(min(1.0, self.seconds / 10))
            if estate.served.process.poll() is not None:
                self.problems.append(f"the proxy has ended with status {estate.served.process.returncode}")
                clients.cancel()
                break
            self._sample()
            for line in await asyncio.to_thread(tail.take):
                books.read(line)
            if passed - printed >= EVERY:
                printed += EVERY
                self._say(passed)
        traffic.is_over = True
        await asyncio.gather(clients, return_exceptions=bool(self.problems))
        await self._settle(tail)
        self._say(time.monotonic() - self.began)
        await self._conclude(at_rest, tail)
        return not self.problems

    def _sample(self) -> None:
        self.samples.append(Sample(time.monotonic() - self.began, resident(self.pid)))

    def _say(self, passed: float) -> None:
        books, rss = self.estate.books, self.samples[-1].bytes / MIB
        lines = sum(books.events.values())
        say(
            f"{passed:7.0f} s   memory {rss:6.1f} MiB   descriptors {descriptors(self.pid) or 0:4d}"
            f"   requests {books.requests:8d}   lines {lines:8d}   lost {books.lost(time.monotonic())}"
            f"   doubled {books.doubled}"
        )

    async def _settle(self, tail: Tail) -> None:
        """Give the last lines the time that they have."""
        books, end = self.estate.books, time.monotonic() + 30
        while time.monotonic() < end:
            for line in await asyncio.to_thread(tail.take):
                books.read(line)
            books.lost(time.monotonic())
            _, status = await self.estate.ask("GET", "/status")
            if not books.ended and not status["connections"]:
                return
            await asyncio.sleep(0.2)

    async def _conclude(self, at_rest: int | None, tail: Tail) -> None:
        estate, books = self.estate, self.estate.books
        _, status = await estate.ask("GET", "/status")
        now = descriptors(self.pid)
        if status["connections"]:
            self.problems.append(f"{status['connections']} connections are still open")
        if now is not None and at_rest is not None and now > at_rest + SPARE:
            self.problems.append(f"{now} descriptors are open at rest, {at_rest} were at the start")
        await estate.ask("POST", "/stop")
        if (ended := await asyncio.to_thread(estate.served.ended)) != 0:
            self.problems.append(f"it ended with status {ended}")
        for line in tail.take():
            books.read(line)
        checked = await asyncio.to_thread(estate.served.egress, "log", "verify")
        if checked.status:
            self.problems.append(f"the log does not verify: {checked.said.strip()}")
        self.problems += [*self._about_requests(), *self._about_memory()]

    def _about_requests(self) -> Iterator[str]:
        books = self.estate.books
        if untold := len(books.ended):
            yield f"{untold} requests are in no line of the log, such as {books.ended[0][1]}"
        if books.unseen:
            yield f"{books.unseen} requests came to an upstream and are in no line of the log"
        if books.doubled:
            yield f"{books.doubled} requests were sent or told twice"
        if books.events["tunnel"] != books.tunnels:
            yield f"{books.tunnels} tunnels, and {books.events['tunnel']} lines about them"
        if books.events["refusal"] != books.refusals:
            yield f"{books.refusals} refused connections, and {books.events['refusal']} lines about them"
        for event in WORRIES:
            if found := self.estate.served.logged(event):
                yield f"the proxy says {event} {len(found)} times, such as {found[0]}"
        yield from books.strange

    def _about_memory(self) -> Iterator[str]:
        found = judge_memory(self.samples)
        if not found.seconds:
            say("too short to judge memory")
            return
        say(
            f"memory: {found.slope * 3600 / MIB:+.2f} MiB an hour by the last {found.seconds:.0f} s; "
            f"{found.grown / MIB:+.2f} MiB in them, {found.allowed / MIB:.2f} may be"
        )
        if not found.is_flat:
            yield "memory does not stay flat"


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def soak(seconds: float) -> bool:
    with tempfile.TemporaryDirectory(prefix="egress-soak-") as name:
        arguments = ("--audit-rotate", ROTATE, "--audit-keep", KEEP, "--sandbox-connections", "4096")
        async with Watched.of(Path(name), *arguments) as estate:
            assert isinstance(estate, Watched)
            run = Soak(estate, seconds)
            is_well = await run.run()
            books = estate.books
            say(f"lines by event: {dict(books.events)}")
            say(f"lines by code: {dict(books.codes)}")
            for problem in run.problems:
                say(f"PROBLEM: {problem}")
            say("all is well" if is_well else "not all is well")
            return is_well


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=HALF_AN_HOUR, help="how long (1800)")
    seconds = parser.parse_args().seconds
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # Its memory is its own from the start, which that of a forked process is not.
    os.environ["EGRESS_TEST_REAL"] = "1"  # noqa: TID251 - tests/cli/command.py looks at it
    return 0 if asyncio.run(soak(seconds)) else 1


if __name__ == "__main__":
    sys.exit(main())
