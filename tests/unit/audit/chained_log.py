"""A log of several chains, as proxies that run at the same time write it."""

from __future__ import annotations

import shutil
from pathlib import Path

from egress.audit import Sink, open_log, verify_log
from egress.audit.log_verification import LogVerification
from tests.unit.audit.sample import KEY, Clock


def opened_log(log: Path, run: str = "", clock: Clock | None = None, key: bytes = KEY) -> Sink:
    """A sink at a free chain, with few slots; it says that it has started, as a proxy does."""
    sink = open_log(log, key, clock=clock or Clock(), run=run, in_flight=8)
    sink.event("started", version="1", policy="x", files="hosts.yaml", chains=sink.chains)
    sink.flush()
    return sink


def write_chains(log: Path, count: int = 3) -> None:
    """A log of so many chains, each with some lines."""
    sinks = [opened_log(log, f"run-{number}") for number in range(count)]
    for number, sink in enumerate(sinks):
        for _ in range(number + 2):
            sink.event("reloaded", policy=f"p-{number}")
            sink.flush()
    for sink in reversed(sinks):
        sink.close()


def sound_log(log: Path) -> LogVerification:
    """Verify a log that must be sound."""
    found = verify_log(log, KEY)
    assert found.is_sound, [str(fault) for fault in found.faults]
    return found


def faults(log: Path) -> list[tuple[str, str]]:
    """The kind and the file of each fault."""
    return [(fault.kind, fault.file) for fault in verify_log(log, KEY).faults]


def copied(log: Path, name: str) -> Path:
    """A copy of a log beside it, to be put back later."""
    return shutil.copytree(log, log.with_name(name))
