"""What contestants, upstreams and load have to agree on: names, ports, the secret, where files lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

API = "api.bench.test"
HTTP2 = "h2.bench.test"
TUNNEL = "tunnel.bench.test"
EVENTS = "events.bench.test"
NAMES = (API, HTTP2, TUNNEL, EVENTS)

SECRET = "bench-secret-1234567890abcdef"
CREDENTIAL = f"Bearer {SECRET}"
MEBIBYTE = 1024 * 1024
BIG = 100 * MEBIBYTE


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the upstream listens for each name, on loopback."""

    api: int
    http2: int
    tunnel: int
    events: int

    def of(self, name: str) -> int:
        return {API: self.api, HTTP2: self.http2, TUNNEL: self.tunnel, EVENTS: self.events}[name]


@dataclass(frozen=True, slots=True)
class Setting:
    """One comparison."""

    folder: Path
    ca: Path
    """The CA that the upstreams' certificates come from."""
    ports: Ports
    big: str
    """The target that answers with 100 MB."""
    upstream: str
    """What the upstream is, for the report."""
