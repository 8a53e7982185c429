"""What the load process is asked to do, and how it is reached: passed as JSON on its command line."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from bench.proxy.process import OTHERS, last_line, start, stop

Kind = Literal["keepalive", "connect", "download", "http2", "events"]
Result = dict[str, float]
EXTRA_TIMEOUT = 60


class LoadError(Exception):
    """The load did not get what it asked for."""


@dataclass(frozen=True, slots=True)
class Job:
    """One measurement."""

    kind: Kind
    name: str
    """The host asked for, through the proxy or at the upstream itself."""
    port: int
    ca: str
    seconds: float
    target: str = "/small"
    proxy: int = 0
    """The proxy's port; 0 goes to the upstream directly."""
    proxy_host: str = "127.0.0.1"
    pid: int = 0
    """The proxy's process, whose tree is charged; 0 charges nobody."""
    connections: int = 32
    resume: bool = False
    credential: str = ""
    """What a direct job sends itself, as there is no proxy to inject it."""


def run(job: Job, log: Path) -> Result:
    """Have a process of its own do the job on the core of the others; LoadError when it cannot."""
    process = start([sys.executable, "-m", "bench.proxy.load", json.dumps(asdict(job))], OTHERS, log=log)
    try:
        status = process.wait(job.seconds * 3 + EXTRA_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise LoadError("the load did not end in time") from None
    finally:
        stop(process)
    if status:
        raise LoadError(last_line(log))
    found: Result = json.loads(last_line(log))
    return found
