"""What the tests of the audit share: a clock set by hand, one of each thing to record, reading a log."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from egress.audit import (
    ConnectionFacts,
    Durations,
    ExchangeFacts,
    Intent,
    RefusalFacts,
    Sink,
    TunnelFacts,
    Verification,
)
from egress.audit.verify import verify
from egress.exchange import Destination, ExchangeRecord
from egress.types import Identity, Place, RuleRef, Slot, Verdict

KEY = bytes(range(32))
MOMENT = 1_772_357_400_000_123_000
"""2026-03-01T09:30:00.000123Z"""

AGENT = Identity("agent-1", "coding")
RULE = RuleRef("api.github.com", "read", Place("hosts.yaml", 14, 9))
RECORD = ExchangeRecord(
    identity=AGENT,
    destination=Destination("https", "api.github.com", 443),
    method="GET",
    path="/repos/acme/app",
    verdict=Verdict.ALLOW,
    code="rule.allowed",
    rule=RULE,
    place=RULE.place,
    observed=False,
    status=200,
    injected=(("github", Slot("header", "authorization")),),
    replaced=True,
    scrubbed=(("github", 2),),
    bytes_up=312,
    bytes_down=2048,
    policy="5f2b8c0d",
)
DENIED = replace(
    RECORD,
    verdict=Verdict.DENY,
    code="rule.none",
    status=403,
    injected=(),
    scrubbed=(),
    rule=None,
    place=None,
)
WAY = ConnectionFacts(
    connection="c-17",
    listener="agent-1",
    entry="connect",
    address="192.0.2.10",
    sni="api.github.com",
    client_tls="TLSv1.3",
    upstream_tls="TLSv1.3",
    alpn="http/1.1",
    upstream_alpn="http/1.1",
)
FACTS = ExchangeFacts(WAY, "c-17-3", Durations(1200, 15000, 31000, 40, 52000, 53100))
OPENING = Intent("c-17-3", "c-17", "agent-1", "api.github.com", 443, "GET", ("github",))
NAME = RefusalFacts(AGENT, "agent-1", "dns", "evil.example", "host.unknown", policy="5f2b8c0d")
TUNNEL = TunnelFacts(
    AGENT, "agent-1", "sni", "c-18", "c-18", "pinned.example.com", 443, "host.allowed", address="192.0.2.11"
)


@dataclass(slots=True)
class Clock:
    """A clock that stands still until it is moved."""

    ns: int = MOMENT
    seconds: float = 1000.0

    def now_ns(self) -> int:
        return self.ns

    def monotonic(self) -> float:
        return self.seconds


def opened(directory: Path, clock: Clock | None = None, *, in_flight: int = 8, **options: int) -> Sink:
    """A sink with few slots, so that making one costs little."""
    return Sink.open(
        directory,
        KEY,
        clock=clock or Clock(),
        in_flight=in_flight,
        rotate_at=options.get("rotate_at", 1 << 26),
        keep=options.get("keep", 0),
        quota=options.get("quota", 0),
        on_full="drop" if options.get("drop") else "stop",
    )


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("audit-*.jsonl"))


def read(directory: Path) -> list[dict[str, object]]:
    """Every line of the log that is JSON."""
    found = []
    for file in files(directory):
        for text in file.read_bytes().split(b"\n")[:-1]:
            try:
                found.append(json.loads(text))
            except ValueError:
                continue
    return found


def kinds(directory: Path) -> list[object]:
    return [line["event"] for line in read(directory)]


def check(directory: Path) -> Verification:
    return verify(directory, KEY)


def sound(directory: Path) -> Verification:
    """Verify a log that must be sound."""
    verified = check(directory)
    assert verified.is_sound, [str(fault) for fault in verified.faults]
    return verified


def abandon(sink: Sink) -> None:
    """End as a kill does: nothing more is written, and the kernel lets go of the lock."""
    writer = sink._writer
    os.close(writer._descriptor)
    os.close(writer._head._descriptor)
    sink._in_flight.close()
    os.close(sink._lock)


@dataclass(frozen=True, slots=True)
class Moment:
    """The files of a log as a kill would leave them."""

    files: dict[str, bytes] = field(repr=False)

    def put(self, directory: Path) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        for old in directory.iterdir():
            old.unlink()
        for name, data in self.files.items():
            (directory / name).write_bytes(data)
        return directory


def moment(directory: Path) -> Moment:
    return Moment({path.name: path.read_bytes() for path in directory.iterdir()})


def moments(directory: Path, flush: Callable[[], object], every: int = 1) -> list[Moment]:
    """What a kill leaves behind at every step of `flush`, and within its writes at every so many bytes."""
    found = [moment(directory)]
    write, pwrite = os.write, os.pwrite

    def slowly(descriptor: int, data: bytes) -> int:
        done = 0
        while done < len(data):
            done += write(descriptor, data[done : done + every])
            found.append(moment(directory))
        return done

    def at(descriptor: int, data: bytes, offset: int) -> int:
        done = pwrite(descriptor, data, offset)
        found.append(moment(directory))
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", slowly)
        patch.setattr(os, "pwrite", at)
        flush()
    found.append(moment(directory))
    return found


@contextmanager
def full_at(size: int) -> Iterator[None]:
    """A disk on which no file can grow beyond this size: the kernel takes what fits and refuses the rest."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
