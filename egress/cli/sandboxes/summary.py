"""Summarise a sandbox's requests: numbers allowed, denied and cut, and secrets used.

Reads only the lines of the log since a mark, so the cost does not depend on the size of the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from egress import environment
from egress.cli import render
from egress.cli.control_client import ask_proxy
from egress.cli.render import BAD, BOLD, DIM
from egress.cli.sandboxes import fleet_session
from egress.errors import EgressError
from egress.fleet import FleetInfo
from egress.review.entry import LogEntry, NotALineError, parse
from egress.review.log_files import LogFiles
from egress.types import Verdict

_MAX_LOG_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the log that are read; for more, `egress log` is the right tool."""
_MAX_LINE_BYTES: Final = 1024 * 1024
_MAX_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class LogMark:
    """A past end of a log: how long its files were."""

    log: Path
    sizes: Mapping[Path, int]


@dataclass(slots=True)
class TrafficSummary:
    """Totals of the requests of one sandbox."""

    allowed: int = 0
    failed: int = 0
    """How many of the allowed ones failed at their upstream."""
    denied: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Number by host, code and rule."""
    cut: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    used: Counter[str] = field(default_factory=Counter)
    """Number of requests by injected secret."""
    is_whole: bool = True

    def add(self, entry: LogEntry) -> None:
        """Count a line."""
        # The rule of an entry without its host, which stands before it anyway.
        stopped = (entry.text("host"), entry.text("code"), entry.text("rule").rpartition("#")[2])
        # Folded denials count with their number of requests.
        match entry.verdict:
            case Verdict.DENY:
                self.denied[stopped] += entry.requests
            case Verdict.CUT:
                self.cut[stopped] += 1
            case Verdict.ALLOW:
                self.allowed += entry.requests
                self.failed += entry.is_failed
        # A secret in two slots of a request counts once. A cut request may have been sent with one.
        if entry.event in ("exchange", "tunnel"):
            self.used.update(set(entry.secrets))


def mark(about: FleetInfo) -> LogMark | None:
    """Return the current end of the log; None if it cannot be read."""
    if about.audit is None:
        return None
    try:
        return LogMark(about.audit, {file.path: file.size() for file in LogFiles.of(about.audit)})
    except OSError:
        return None


def show(about: FleetInfo, sandbox: str, since: LogMark | None) -> None:
    """Print a summary of the requests since a mark, apart from the output of the command."""
    if since is None:
        fleet_session.say(
            "its log is with the gateway"
            if about.kind == "kubernetes"
            else "its log cannot be read by this user"
        )
        return
    # Without the wait, the last requests would be missing from the numbers.
    _settle(about)
    found = TrafficSummary()
    for entry in _entries(since, about.run, found):
        if entry.text("sandbox") == sandbox:
            found.add(entry)
    _say(found, sandbox, about)


def _settle(about: FleetInfo) -> None:
    """Wait until finished requests are logged: the proxy answers the status after writing them."""
    try:
        ask_proxy("GET", "/status", None, about.runtime_dir)
    except EgressError:
        fleet_session.say("the proxy no longer answers")


def _entries(since: LogMark, run: str, found: TrafficSummary) -> Iterator[LogEntry]:
    # Bounded, because a sandbox decides how much it logs.
    left = _MAX_LOG_BYTES
    others: set[str] = set()
    try:
        for log_file in LogFiles.of(since.log):
            if log_file.chain.place in others:
                continue
            with log_file.path.open("rb") as file:
                file.seek(since.sizes.get(log_file.path, 0))
                while left > 0 and (line := file.readline(_MAX_LINE_BYTES)):
                    left -= len(line)
                    entry = _entry(line, found)
                    # The proxy of this run had its chain when the mark was made: other chains are of others.
                    if entry is not None and run and entry.text("run") != run:
                        others.add(log_file.chain.place)
                        break
                    if entry is not None:
                        yield entry
    except OSError:
        found.is_whole = False
    found.is_whole = found.is_whole and left > 0


def _entry(line: bytes, found: TrafficSummary) -> LogEntry | None:
    try:
        return parse(line.removesuffix(b"\n"))
    except NotALineError:
        found.is_whole = False
        return None


def _say(found: TrafficSummary, sandbox: str, about: FleetInfo) -> None:
    denied, cut = found.denied.total(), found.cut.total()
    requests = found.allowed + denied + cut
    total = render.count(requests, "request")
    failed = f" ({found.failed} failed)" if found.failed else ""
    ends = f"{found.allowed} allowed{failed}, {denied} denied, {cut} cut"
    render.line(("egress: ", DIM), f"{total}: {ends}", stderr=True)
    for word, stopped in (("denied ", found.denied), ("cut ", found.cut)):
        for (host, code, rule), times in stopped.most_common(_MAX_SHOWN):
            what = "  ".join(filter(None, (host or "(no host)", code, rule, f"{times}x")))
            render.line("  ", (word, BAD), what, stderr=True)
        more = len(stopped) - _MAX_SHOWN
        if more > 0:
            render.line(f"  and {more} more", stderr=True)
    if found.used:
        names = ", ".join(f"{name} ({times}x)" for name, times in sorted(found.used.items()))
        render.line(f"  secrets used: {names}", stderr=True)
    if not found.is_whole:
        render.line("  some lines of the log could not be counted", stderr=True)
    # Without requests there is nothing to look up.
    if requests:
        where = f" --run {about.run}" if about.run else ""
        usual = environment.audit_dir(environment.read_environment())
        where += f" --dir {about.audit}" if about.audit not in (None, usual) else ""
        render.line(
            "  more: ", (f"egress log query --sandbox {sandbox}{where}", BOLD), stderr=True, whole=True
        )
