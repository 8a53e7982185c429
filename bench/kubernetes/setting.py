"""What the processes of this benchmark have to agree on, passed as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

GATEWAY: Final = "127.62.0.1"
"""Not the address of the upstream or of a pod."""
MARKERS: Final = ("even.bench.test", "odd.bench.test")
"""Hosts that one profile each knows, by which a client finds out whose rights it has."""
PROFILES: Final = ("even", "odd")


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway that runs, and the cluster that it watches."""

    folder: str
    pid: int
    port: int
    upstream: int
    """The port of the upstream."""

    @property
    def ca(self) -> Path:
        """The certificate that its clients trust."""
        return Path(self.folder) / "gateway-ca.pem"

    @property
    def cluster(self) -> Path:
        """Where the cluster is told what is to happen."""
        return Path(self.folder) / "cluster.sock"

    @property
    def log(self) -> Path:
        """The folder of its audit log."""
        return Path(self.folder) / "state" / "audit"

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Self:
        return cls(**json.loads(text))
