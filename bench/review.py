"""Reviewing a large log: verifying, the index, queries, numbers from roll-ups, rules from a day of it.

Questions are asked within this process: what a command or a page adds is not in them.

The lines are made as the proxy makes them, for some sandboxes that work with some hosts over a week. How
many there are is set with `EGRESS_BENCH_LINES`; a million otherwise. `EGRESS_BENCH_LOG` names a folder that
keeps the lines for the next run, here or in `bench.ui`: to make them takes longest. Prints numbers; judges
nothing.

    EGRESS_BENCH_LINES=10000000 EGRESS_BENCH_LOG=/var/tmp/lines python -m bench review ui
"""

from __future__ import annotations

import hashlib
import os
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench._timing import microseconds, seconds
from bench.audit import FACTS, KEY, RECORD, REFUSAL
from egress.audit import Durations, Sink, files, lines
from egress.audit.chain import Chain, Keys
from egress.audit.checkpoint import CheckpointFile, LogPosition
from egress.audit.verify import verify
from egress.audit.writer import TimestampFormatter
from egress.exchange import Destination
from egress.review import Filters, Index, schema
from egress.review.drafting import TimeRange, Traffic, draft, is_decided, observe, read, replay, suggest
from egress.rules.compile.load import RuleText
from egress.types import Identity, Place, RuleRef, Verdict

Row = tuple[str, float, str, float | None]

LINES = int(os.environ.get("EGRESS_BENCH_LINES", "1000000"))
WEEK = 7 * 86_400 * 1_000_000_000
DAY = 86_400
RULES = "version: 1\nhosts:\n  other.example.com: { methods: [GET] }\n"
BEGAN = 1_772_357_400_000_000_000
ROTATE = 64 * 1024 * 1024
BATCH = 2000


class WeekClock:
    """A clock that is set to where the made-up week has got."""

    ns = BEGAN

    def now_ns(self) -> int:
        return self.ns

    def monotonic(self) -> float:
        return self.ns / 1e9


def bodies(count: int, clock: WeekClock) -> Iterator[str]:
    """The bodies of so many lines: mostly exchanges, some denied, and names that were refused."""
    chance = random.Random(7)
    boxes = [Identity(f"agent-{number}", "coding" if number % 3 else "research") for number in range(20)]
    hosts = [f"{name}.example.com" for name in ("api", "git", "registry", "docs", "files", "mail")]
    hosts += [f"service-{number}.example.net" for number in range(30)]
    paths = [f"/v1/projects/{number}/items" for number in range(3000)]
    rules = [RuleRef(host, "read", Place("config/hosts.yaml", 14 + n, 9)) for n, host in enumerate(hosts)]
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for number in range(count):
        clock.ns = BEGAN + WEEK * number // count
        box = boxes[int(chance.random() ** 2 * 20)]
        request = "".join(chance.choices(letters, k=12))
        if chance.random() < 0.05:
            yield lines.refusal(replace(REFUSAL, identity=box, host=f"x{chance.randrange(500)}.example"))
            continue
        at = int(chance.random() ** 2 * 36)
        took = int(chance.lognormvariate(10, 1))
        path = paths[chance.randrange(3000)] if chance.random() < 0.8 else f"/blobs/{request}"
        is_denied = chance.random() < 0.03
        record = replace(
            RECORD,
            identity=box,
            destination=Destination("https", hosts[at], 443),
            method=chance.choice(("GET", "GET", "GET", "POST", "PUT")),
            path=path,
            verdict=Verdict.DENY if is_denied else Verdict.ALLOW,
            code="rule.none" if is_denied else "rule.allowed",
            rule=None if is_denied else rules[at],
            place=None if is_denied else rules[at].place,
            status=403 if is_denied else chance.choice((200, 200, 200, 200, 304, 404, 500)),
            injected=RECORD.injected if at < 6 and not is_denied else (),
            bytes_down=took * 3,
        )
        yield lines.exchange(record, replace(FACTS, request=request, durations=Durations(total=took)))


def make(folder: Path, count: int) -> None:
    """Write such a log by the chain itself, quicker than a proxy could."""
    Sink.open(folder, KEY, clock=WeekClock()).close()
    keys, clock = Keys.of(KEY), WeekClock()
    chain, stamps, number, offset = Chain(keys.line), TimestampFormatter(clock), 1, 0
    file = (folder / files.name(1)).open("wb")
    for body in bodies(count, clock):
        if offset >= ROTATE:
            file.close()
            number, offset = number + 1, 0
            file = (folder / files.name(number)).open("wb")
            line = chain.seal(stamps.now(), lines.rotated(files.name(number - 1), chain.mac.hex()))
            offset += file.write(line)
        offset += file.write(chain.seal(stamps.now(), body))
    file.close()
    end = LogPosition(chain.seq, number, offset, chain.mac)
    CheckpointFile(folder, keys.head, end, is_fresh=True).close()


@contextmanager
def open_log() -> Iterator[Path]:
    """The folder of a log of that many lines: the one that is kept, or one of its own."""
    kept = os.environ.get("EGRESS_BENCH_LOG")
    root = Path(kept) if kept else Path(tempfile.mkdtemp(prefix="egress-bench-"))
    folder = root / f"lines-{LINES}"
    try:
        if not folder.exists():
            unfinished = root / f"unfinished-{LINES}"
            shutil.rmtree(unfinished, ignore_errors=True)
            make(unfinished, LINES)
            unfinished.rename(folder)
        yield folder
    finally:
        if not kept:
            shutil.rmtree(root)


def run() -> Iterator[Row]:
    """Measure every row on one log."""
    with open_log() as folder:
        yield from _rows(folder)


def _rows(folder: Path) -> Iterator[Row]:
    size = sum(file.stat().st_size for file in folder.glob("*.jsonl"))
    yield (f"lines of {size // LINES} bytes", LINES, "", None)
    took = seconds(lambda: verify(folder, KEY), rounds=2)
    yield ("lines verified", LINES / took, "/s", 400_000.0)
    yield ("lines hashed, and nothing else", 1 / _hashing(b"x" * (size // LINES)), "/s", None)
    schema.throw_away(folder / schema.NAME)
    start = time.perf_counter()
    with Index(folder) as index:
        index.catch_up()
        yield ("lines indexed", LINES / (time.perf_counter() - start), "/s", 60_000.0)
        yield ("the index, of each line", index.place.stat().st_size / LINES, "bytes", None)
        yield from _answers(index)
    yield ("most memory", _memory(), "MiB", 300.0)
    yield from _from_traffic(folder)
    yield ("most memory, with the draft", _memory(), "MiB", None)


def _hashing(line: bytes) -> float:
    """How long one SHA-256 of a line takes here: processors differ most in this, and verifying is this."""
    return microseconds(lambda: hashlib.sha256(line).digest()) / 1e6


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


QUERIES = {
    "newest": Filters(),
    "denied of one sandbox": Filters(sandbox="agent-19", verdict="deny"),
    "5xx of one host with a secret": Filters(host="api.example.com", status="5xx", secret="github"),
    "a host that is rare": Filters(host="x77.example"),
    "a host that is not there": Filters(host="nowhere.example"),
    "text in a path": Filters(grep="projects/2718/"),
    "text that is nowhere": Filters(grep="no-such-text"),
    "one minute in the middle": Filters(
        since=(BEGAN + WEEK // 2) // 1000, until=(BEGAN + WEEK // 2) // 1000 + 60_000_000
    ),
}


def _answers(index: Index) -> Iterator[Row]:
    for name, filters in QUERIES.items():
        took = seconds(lambda f=filters: index.query(f, 50), rounds=3)  # type: ignore[misc]
        yield (f"first page: {name}", took * 1000, "ms", 100.0)
    newest = index.query(Filters(method="POST"), 500).entries[-1]
    took = seconds(lambda: index.find(newest.request), rounds=3)
    yield ("one request by its id", took * 1000, "ms", 100.0)
    for by in ("sandbox", "host", "secret"):
        took = seconds(lambda b=by: index.stats(Filters(), b), rounds=3)  # type: ignore[misc]
        yield (f"numbers by {by}", took * 1000, "ms", 1000.0)
    middle = (BEGAN + WEEK // 2) // 1000
    took = seconds(lambda: index.stats(Filters(since=middle, sandbox="agent-1"), "host"), rounds=3)
    yield ("numbers of one sandbox since a moment", took * 1000, "ms", 1000.0)
    took = seconds(lambda: index.over_time(Filters()), rounds=3)
    yield ("numbers over time", took * 1000, "ms", 1000.0)


def _from_traffic(folder: Path) -> Iterator[Row]:
    """The last day of the week: read by the index and without, drafted, replayed; and one old request."""
    now = (BEGAN + WEEK) // 1_000_000_000 + 1
    traffic = Traffic()
    for title, index in (("", None), (", without an index", folder / "none")):
        start = time.perf_counter()
        traffic = Traffic.of(read(folder, TimeRange(now - DAY), index))
        took = time.perf_counter() - start
        yield (f"draft: the last day read{title}", took, "s", None)
    yield ("draft: its lines", traffic.lines, "", None)
    yield ("draft: its different requests", traffic.kinds, "", None)
    start = time.perf_counter()
    made = draft(traffic, None, now)
    yield ("draft: rules of it", time.perf_counter() - start, "s", None)
    start = time.perf_counter()
    replay(traffic, made.policy, now)
    yield ("replay: all of it decided again", time.perf_counter() - start, "s", None)
    with Index(folder) as known:
        first = next(entry for entry in known.each(Filters(event="exchange", verdict="deny")))
        took = seconds(lambda: _suggested(known, first.request), rounds=3)
        yield ("suggest: the first denied request", took * 1000, "ms", None)


def _suggested(index: Index, request: str) -> None:
    """What `egress log suggest` does, but for loading rule files."""
    index.catch_up()
    line = index.newest(request, lambda entry: is_decided(entry, request))
    one = observe(line.fields) if line else None
    if line is None or one is None:
        raise RuntimeError(f"{request} is not found")
    suggest(one, line.text("address"), [RuleText("hosts.yaml", RULES)], {}, BEGAN // 1_000_000_000)


if __name__ == "__main__":
    for name, value, unit, target in run():
        print(f"{name:<55} {value:12.3f} {unit:<5} {'' if target is None else f'target {target}'}")
