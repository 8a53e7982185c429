"""What the tests of the review share: a log with some of everything, written by the proxy's own sink."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from egress.audit import Durations, Sink
from egress.exchange import Destination, ExchangeRecord
from egress.types import Identity, Place, RuleRef, Slot, Verdict
from tests.unit.audit.sample import DENIED, FACTS, KEY, MOMENT, NAME, OPENING, RECORD, TUNNEL, Clock, opened

HOUR = 3600 * 10**9
START = MOMENT // 1000
"""The moment of the first line, in microseconds."""
MAIL = RuleRef("mail.example.com", "send", Place("hosts.yaml", 21, 9))


@dataclass
class Writing:
    """Writes a log, each line an hour after the one before."""

    directory: Path
    rotate_at: int = 1 << 26

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.sink: Sink = opened(self.directory, self.clock, in_flight=64, rotate_at=self.rotate_at)

    def next_hour(self) -> None:
        self.sink.flush()
        self.clock.ns += HOUR
        self.clock.seconds += 3600

    def exchange(self, request: str, record: ExchangeRecord = RECORD, took: int = 53_100) -> None:
        ticket = self.sink.begin(replace(OPENING, request=request))
        facts = replace(FACTS, request=request, durations=Durations(total=took))
        self.sink.exchange(ticket, record, facts)
        self.next_hour()

    def close(self) -> None:
        self.sink.close()


BOB = Identity("bob", "research")
POST = replace(
    RECORD,
    identity=BOB,
    destination=Destination("https", "mail.example.com", 8443),
    method="POST",
    path="/send/Größe",
    rule=MAIL,
    place=MAIL.place,
    status=502,
    injected=(("mail", Slot("header", "x-api-key")), ("github", Slot("header", "authorization"))),
    scrubbed=(),
)


def write(directory: Path, *, rotate_at: int = 1 << 26, close: bool = True) -> Writing:
    """Eight lines, an hour apart: allowed, denied, another sandbox, a tunnel, a name, an event."""
    writing = Writing(directory, rotate_at)
    sink = writing.sink
    sink.event("started", version="0.1.0", policy="5f2b8c0d", files="hosts.yaml")
    writing.next_hour()
    writing.exchange("r-1")
    writing.exchange("r-2", replace(RECORD, path="/user/keys"), took=1_000_000)
    sink.exchange(None, DENIED, replace(FACTS, request="r-3"))
    writing.next_hour()
    writing.exchange("r-4", POST)
    sink.tunnel(sink.begin(replace(OPENING, request="r-5")), replace(TUNNEL, request="r-5"))
    writing.next_hour()
    sink.refusal(NAME)
    writing.next_hour()
    writing.exchange("r-6", replace(RECORD, verdict=Verdict.ALLOW, observed=True, rule=None, place=None))
    if close:
        writing.close()
    return writing


__all__ = ["BOB", "HOUR", "KEY", "MAIL", "OPENING", "POST", "START", "Writing", "write"]
