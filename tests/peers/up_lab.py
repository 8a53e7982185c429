"""`egress up` with its API at a port, beside an API on loopback that wants a credential."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from egress.cli.stand_in_api import NAME, StandInApi
from tests.cli.command import Outcome, egress, put

TRACKER_TOKEN: Final = "made-up-token-4f2a9c1e"
_UP_TIMEOUT: Final = 300.0
_RULES: Final = """\
version: 1
secrets:
  tracker: {{ from: "env:TRACKER_TOKEN", hosts: ["{name}:{port}"] }}
profiles:
  default: {{ hosts: [] }}
  tracker: {{ hosts: [{name}] }}
hosts:
  {name}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow: [{{ id: read, methods: [GET], paths: ["/v1/**"] }}]
    inject: [bearer: tracker]
"""


@dataclass(frozen=True, slots=True)
class UpLab:
    """A folder with `egress up`, which may be ended and started again."""

    folder: Path
    runtime: str
    image: str
    api: StandInApi
    port: int
    words: tuple[str, ...] = ()
    """Further options of `egress up`."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return (self.folder / "state/api.token").read_text().strip()

    @property
    def api_url(self) -> str:
        """The API on loopback, as sandboxes name it."""
        return f"https://{NAME}:{self.api.port}"

    @property
    def env(self) -> dict[str, str]:
        """The folders, for `egress` commands."""
        return {
            "EGRESS_RUNTIME_DIR": str(self.folder / "run"),
            "EGRESS_STATE_DIR": str(self.folder / "state"),
        }

    def egress(self, *words: str) -> Outcome:
        around = {
            **self.env,
            "TRACKER_TOKEN": TRACKER_TOKEN,
            "EGRESS_UPSTREAM_CA": str(self.folder / "api-ca.pem"),
            "EGRESS_RESOLVE": f"{NAME}=127.0.0.1",
        }
        return egress(*words, cwd=self.folder, env=around, timeout=_UP_TIMEOUT)

    def up(self) -> None:
        words = ["up", "--rules", "hosts.yaml", "--runtime", self.runtime, "--ready", "0"]
        words += ["--api-listen", f"127.0.0.1:{self.port}"]
        words += ["--image", self.image] if self.image else []
        words += self.words
        done = self.egress(*words)
        assert done.status == 0, done


@contextmanager
def up_lab(runtime: str, image: str = "", rules: str = _RULES, pools: str = "") -> Iterator[UpLab]:
    """Start `egress up`, and end it."""
    with tempfile.TemporaryDirectory(prefix="egress-") as name, StandInApi() as api:
        folder = Path(name)
        put(folder / "hosts.yaml", rules.format(name=NAME, port=api.port))
        put(folder / "api-ca.pem", api.certificate)
        if pools:
            put(folder / "pools.yaml", pools)
        lab = UpLab(folder, runtime, image, api, free_port(), ("--api-pools", "pools.yaml") if pools else ())
        lab.up()
        try:
            yield lab
        finally:
            lab.egress("down")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])
