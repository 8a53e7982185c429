"""What the proxy, its upstreams, the victim and its neighbour have to agree on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

GOOD = "good.bench.test"
"""The victim's host."""
BAD = "bad.bench.test"
"""The neighbour's host, which speaks HTTP/1.1, and means harm."""
BAD_HTTP2 = "bad2.bench.test"
TUNNEL = "tunnel.bench.test"
CLEAR = "clear.bench.test"
NAMES = (GOOD, BAD, BAD_HTTP2, TUNNEL, CLEAR)

SECRET = "bench-secret-1234567890abcdef"
VICTIM, NEIGHBOUR = "victim", "neighbour"
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Stage:
    """Where everything is, passed to processes as JSON."""

    folder: str
    proxy: int
    """The port of the neighbour's listener."""
    victim_proxy: int
    names: int
    """The port of the neighbour's name server."""
    good: int
    bad: int
    bad_http2: int
    tunnel: int
    clear: int
    ca: str
    """The certificate that the neighbour trusts."""
    victim_ca: str
    rules: str
    control: str

    def port(self, name: str) -> int:
        """The port of an upstream; 443 for a host that is denied."""
        return {
            GOOD: self.good,
            BAD: self.bad,
            BAD_HTTP2: self.bad_http2,
            TUNNEL: self.tunnel,
            CLEAR: self.clear,
        }.get(name, 443)

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Self:
        return cls(**json.loads(text))
