"""What recording costs: a ticket, the line, its MAC, and its share of the write.

Lines are flushed together once per turn of the event loop, so the cost depends on how many exchanges
end in one turn: one on an idle proxy, many on a busy one. Prints numbers; judges nothing.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench._timing import microseconds, seconds
from egress.audit import ConnectionFacts, Durations, ExchangeFacts, Intent, RefusalFacts, Sink, lines
from egress.audit.chain import Chain, Keys
from egress.audit.clock import format_timestamp
from egress.audit.verify import verify
from egress.exchange import Destination, ExchangeRecord
from egress.review import parse
from egress.review.indexed_line import read
from egress.types import Identity, Place, RuleRef, Slot, Verdict

Row = tuple[str, float, str, float | None]

SANDBOX = Identity("agent-1", "coding")
RULE = RuleRef("api.github.com", "read", Place("config/hosts.yaml", 14, 9))
RECORD = ExchangeRecord(
    identity=SANDBOX,
    destination=Destination("https", "api.github.com", 443),
    method="GET",
    path="/repos/acme/hello-world/issues",
    verdict=Verdict.ALLOW,
    code="rule.allowed",
    rule=RULE,
    place=RULE.place,
    observed=False,
    status=200,
    injected=(("github", Slot("header", "authorization")),),
    replaced=True,
    scrubbed=(),
    bytes_up=312,
    bytes_down=2048,
    policy="5f2b8c0d9e1a4b7c",
)
TOOK = Durations(1200, 15000, 31000, 40, 52000, 53100)
WAY = ConnectionFacts(
    connection="c-000017",
    listener="agent-1",
    entry="connect",
    address="192.0.2.10",
    sni="api.github.com",
    client_tls="TLSv1.3",
    upstream_tls="TLSv1.3",
    alpn="http/1.1",
    upstream_alpn="http/1.1",
)
FACTS = ExchangeFacts(WAY, "c-000017-3", TOOK)
OPENING = Intent("c-000017-3", "c-000017", "agent-1", "api.github.com", 443, "GET", ("github",))
REFUSAL = RefusalFacts(SANDBOX, "agent-1", "dns", "evil.example", "host.unknown")
KEY = bytes(range(32))


class MachineClock:
    """The clock of the machine."""

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic(self) -> float:
        return time.monotonic()


def run() -> list[Row]:
    """Measure every row, best of several rounds."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for together in (1, 8, 32):
            sink = Sink.open(Path(folder, str(together)), KEY, clock=MachineClock(), keep=2)
            cost = microseconds(partial(turn, sink, together), 2000 // together) / together
            sink.close()
            name = f"an exchange with its ticket, {together} in one turn of the loop"
            rows.append((name, cost, "us", 10.0))
        sink = Sink.open(Path(folder, "flood"), KEY, clock=MachineClock(), keep=2)
        rows.append(("a refusal of a flood, folded", microseconds(lambda: sink.refusal(REFUSAL)), "us", None))
        sink.close()
        rows.append(checked(Path(folder, "checked")))
    rows += encoded_and_read()
    return rows


def turn(sink: Sink, exchanges: int) -> None:
    """One turn of the loop: so many exchanges begin and end, then everything is written."""
    for _ in range(exchanges):
        ticket = sink.begin(OPENING)
        sink.sent(ticket)
        sink.exchange(ticket, RECORD, FACTS)
    sink.flush()


def encoded_and_read() -> list[Row]:
    """Lines that differ in path, id and durations: written, read for the index, and parsed whole."""
    chain, count = Chain(Keys.of(KEY).line), 500
    told = [
        (
            replace(RECORD, path=f"/repos/acme/{n}"),
            replace(FACTS, request=f"c-{n}", durations=Durations(total=n)),
        )
        for n in range(count)
    ]
    sealed = [
        chain.seal(format_timestamp(n * 10**9), lines.exchange(*each))[:-1] for n, each in enumerate(told)
    ]
    jobs = {
        "a line of an exchange, encoded": lambda: [lines.exchange(*each) for each in told],
        "the same, read for the index": lambda: [read(line) for line in sealed],
        "the same, parsed": lambda: [parse(line) for line in sealed],
    }
    return [(name, microseconds(job, 10) / count, "us", None) for name, job in jobs.items()]


def checked(folder: Path) -> Row:
    """How fast a log is verified."""
    sink = Sink.open(folder, KEY, clock=MachineClock())
    for _ in range(200):
        turn(sink, 100)
    sink.close()
    took = seconds(lambda: verify(folder, KEY), rounds=3)
    return ("lines verified", 20_000 / took, "/s", None)


if __name__ == "__main__":
    for name, value, unit, target in run():
        print(f"{name:<55} {value:10.3f} {unit:<5} {'' if target is None else f'target {target}'}")
