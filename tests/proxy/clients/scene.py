"""A client's surroundings: an upstream behind a lock, and the proxy that holds the key.

    async with through(tmp_path, RawUpstream(certs.good(NAME), WANTED)) as scene:
        ... a client asks for scene.url("/small") by way of scene.stack.url ...
        scene.carried(("GET", "/small", 200))

The client holds nothing, or something that is worth nothing; the upstream answers 401 to all but `WANTED`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.http2 import Http2Upstream
from tests.proxy.lab.proxy_stack import NAME, OTHER, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream

SECRET = "sesame-open-please"
WANTED = f"Bearer {SECRET}"
MASK = "*" * len(SECRET)

certs = Certificates()

Line = tuple[str, str, int]
"""An exchange in short: method, path, status."""


def rules(folder: Path, port: int, host: str = "", inject: str = "bearer: api", other: str = "") -> str:
    """One host with a credential and a path that is closed; another one, without a credential.

    `host` is one more line for the entry of the first, `other` one for that of the other.
    """
    return f"""
version: 1
secrets:
  api: {{from: "file:{folder / "secret"}", hosts: ["{NAME}:{port}"]}}
hosts:
  {NAME}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow:
      - {{id: all, paths: ["/**"]}}
      - {{id: frames, paths: [/ws], websocket: true}}
    deny:
      - {{id: no-private, paths: ["/private/**"]}}
    inject:
      - {inject}
    {host}
  {OTHER}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    {other}
"""


def write_secret(folder: Path) -> None:
    """The file that the rules name."""
    path = folder / "secret"
    path.touch(mode=0o600)
    path.write_text(SECRET)


@dataclass(frozen=True, slots=True)
class Scene[U]:
    """The proxy, the upstream behind it, and what is to be said about both afterwards."""

    stack: ProxyStack
    upstream: U
    port: int
    ca: Path
    """The certificate that clients trust, as a file."""

    @property
    def host(self) -> str:
        return f"{NAME}:{self.port}"

    def url(self, path: str, scheme: str = "https") -> str:
        return f"{scheme}://{self.host}{path}"

    def carried(self, *wanted: Line) -> None:
        """The log holds these exchanges and no other; each was allowed and given the one secret."""
        lines = self.stack.exchanges()
        assert [_short(line) for line in lines] == list(wanted)
        for line in lines:
            assert (line["verdict"], line["code"]) == ("allow", "rule.allowed"), line
            assert line["injected"] == [{"secret": "api", "slot": "header:authorization"}]

    def denied(self, code: str, *wanted: Line) -> None:
        """The log holds these exchanges and no other; each was denied for this reason and given nothing."""
        lines = self.stack.exchanges()
        assert [_short(line) for line in lines] == list(wanted)
        for line in lines:
            assert (line["verdict"], line["code"], line["injected"]) == ("deny", code, []), line


def _short(line: dict[str, object]) -> Line:
    status = line["status"]
    return str(line["method"]), str(line["path"]), status if isinstance(status, int) else 0


def unlocked(upstream: RawUpstream | Http2Upstream, *paths: str) -> None:
    """Requests for these paths arrived, each with exactly one credential, the right one."""
    assert [request.path for request in upstream.requests] == list(paths)
    for request in upstream.requests:
        assert request.headers("authorization") == [WANTED]
        assert sum(SECRET in value for _, value in request.fields) == 1
        assert not [name for name, _ in request.fields if name.startswith("proxy-")]


@asynccontextmanager
async def through[U: RawUpstream | Http2Upstream](
    folder: Path, upstream: U, host: str = "", other: str = ""
) -> AsyncIterator[Scene[U]]:
    """Put an upstream behind the proxy; `host` and `other` are lines for its two entries in the rules."""
    write_secret(folder)
    async with (
        upstream,
        ProxyStack(folder, certs, rules(folder, upstream.port, host, other=other)) as stack,
    ):
        yield Scene(stack, upstream, upstream.port, stack.write_ca())
