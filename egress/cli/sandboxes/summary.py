"""Summarise a sandbox's requests: numbers allowed and denied, and secrets used.

Reads only the lines of the log since a mark, so the cost does not depend on the size of the log.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from egress.audit import files
from egress.cli import render
from egress.cli.control_client import ask_proxy
from egress.cli.render import BAD, BOLD, DIM
from egress.cli.sandboxes import fleet_session
from egress.errors import EgressError
from egress.fleet import FleetInfo
from egress.review.entry import LogEntry, NotALineError, parse

_MAX_LOG_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the log that are read; for more, `egress log` is the right tool."""
_MAX_LINE_BYTES: Final = 1024 * 1024
_MAX_SHOWN_DENIED: Final = 5


@dataclass(frozen=True, slots=True)
class LogMark:
    """A past end of a log."""

    folder: Path
    file: int
    at: int


@dataclass(slots=True)
class TrafficSummary:
    """Totals of the requests of one sandbox."""

    allowed: int = 0
    denied: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number by host and code."""
    used: Counter[str] = field(default_factory=Counter)
    """Number of requests by injected secret."""
    is_whole: bool = True

    def add(self, entry: LogEntry) -> None:
        """Count a line."""
        # Folded denials count with their number of requests.
        if entry.verdict == "deny":
            self.denied[entry.text("host"), entry.text("code")] += entry.requests
        elif entry.event in ("exchange", "tunnel"):
            self.allowed += 1
            # A secret in two slots of a request counts once.
            self.used.update(set(entry.secrets))


def mark(about: FleetInfo) -> LogMark | None:
    """Return the current end of the log; None if it cannot be read."""
    folder = about.audit
    if folder is None:
        return None
    try:
        there = files.numbers(folder)
        last = there[-1] if there else 1
        return LogMark(folder, last, files.size(folder, last))
    except OSError:
        return None


def show(about: FleetInfo, sandbox: str, since: LogMark | None) -> None:
    """Print a summary of the requests since a mark, apart from the output of the command."""
    if since is None:
        fleet_session.say("its log cannot be read by this user")
        return
    # Without the wait, the last requests would be missing from the numbers.
    _settle(about)
    found = TrafficSummary()
    for entry in _entries(since, found):
        if entry.text("sandbox") == sandbox:
            found.add(entry)
    _say(found, sandbox, about)


def _settle(about: FleetInfo) -> None:
    """Wait until finished requests are logged: the proxy answers the status after writing them."""
    try:
        ask_proxy("GET", "/status", None, about.runtime_dir)
    except EgressError:
        fleet_session.say("the proxy no longer answers")


def _entries(since: LogMark, found: TrafficSummary) -> Iterator[LogEntry]:
    # Bounded, because a sandbox decides how much it logs.
    left = _MAX_LOG_BYTES
    try:
        numbers = [number for number in files.numbers(since.folder) if number >= since.file]
        for number in numbers:
            with (since.folder / files.name(number)).open("rb") as file:
                file.seek(since.at if number == since.file else 0, os.SEEK_SET)
                while left > 0 and (line := file.readline(_MAX_LINE_BYTES)):
                    left -= len(line)
                    try:
                        yield parse(line.removesuffix(b"\n"))
                    except NotALineError:
                        found.is_whole = False
    except OSError:
        found.is_whole = False
    found.is_whole = found.is_whole and left > 0


def _say(found: TrafficSummary, sandbox: str, about: FleetInfo) -> None:
    denied = found.denied.total()
    total = render.count(found.allowed + denied, "request")
    render.line(("egress: ", DIM), f"{total}: {found.allowed} allowed, {denied} denied", stderr=True)
    for (host, code), times in found.denied.most_common(_MAX_SHOWN_DENIED):
        render.line("  ", ("denied ", BAD), f"{host or '(no host)'}  {code}  {times}x", stderr=True)
    more = len(found.denied) - _MAX_SHOWN_DENIED
    if more > 0:
        render.line(f"  and {more} more", stderr=True)
    if found.used:
        names = ", ".join(f"{name} ({times}x)" for name, times in sorted(found.used.items()))
        render.line(f"  secrets used: {names}", stderr=True)
    if not found.is_whole:
        render.line("  some lines of the log could not be counted", stderr=True)
    # Without requests there is nothing to look up.
    if found.allowed or denied:
        where = f" --dir {about.audit}" if about.audit is not None else ""
        render.line(
            "  more: ", (f"egress log query --sandbox {sandbox}{where}", BOLD), stderr=True, whole=True
        )
