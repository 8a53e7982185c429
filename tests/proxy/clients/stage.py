"""Where a client is proven: an upstream, the proxy before it, and a home that holds what its user would set.

The upstream lets everybody in, so that what was injected can be told from what was not. Two of its names
are open: one is given the credential, the other nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from egress.ca import merged_bundle
from tests.proxy.clients.client import Ask, Client, Verb
from tests.proxy.clients.program import Ran, run, started
from tests.proxy.clients.scene import SECRET, Scene, certs, through
from tests.proxy.lab.certificates import HTTP2
from tests.proxy.lab.http2 import Http2Upstream
from tests.proxy.lab.proxy_stack import NAME, OTHER
from tests.proxy.lab.raw_upstream import RawUpstream

MOST_KEPT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Stage[U]:
    """A scene, and clients in it."""

    scene: Scene[U]
    bundle: Path
    home: Path
    _ready: set[str] = field(default_factory=set)

    def url(self, path: str, host: str = NAME, scheme: str = "https") -> str:
        return f"{scheme}://{host}:{self.scene.port}{path}"

    def filled(self, text: str) -> str:
        """A value of a client's settings as its user would write it here."""
        return text.format(
            proxy=self.scene.stack.url,
            proxy_host="127.0.0.1",
            proxy_port=self.scene.stack.port,
            bundle=self.bundle,
            certificate=self.scene.ca,
            home=self.home,
            host=self.scene.host,
            other=f"{OTHER}:{self.scene.port}",
        )

    def environment(self, client: Client) -> dict[str, str]:
        """The variables that the table names, and what the test needs for itself."""
        return {name: self.filled(text) for name, text in {**client.around, **client.variables}.items()}

    async def prepare(self, client: Client) -> None:
        """Write the files that the table names, and run what its user would run once."""
        if client.name in self._ready:
            return
        self._ready.add(client.name)
        for place, text in client.files.items():
            path = self.home / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.filled(text))
        for command in client.before:
            ran = await run(self.home, *map(self.filled, command), environment=self.environment(client))
            assert ran.status == 0, ran.err

    async def run(self, client: Client, *command: str | Path) -> Ran:
        """Run any command as the user of this client."""
        await self.prepare(client)
        ran = await run(self.home, *map(str, command), environment=self.environment(client))
        assert SECRET.encode() not in ran.out
        assert SECRET not in ran.err
        return ran

    async def ask(
        self, client: Client, verb: Verb, path: str, host: str = NAME, file: Path | None = None
    ) -> Ran:
        """Have the client do one thing."""
        scheme = "wss" if verb == "websocket" else "https"
        return await self.run(client, *client.command(Ask(verb, self.url(path, host, scheme), file)))

    async def begun(
        self, client: Client, verb: Verb, path: str
    ) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
        """A client at work; it does not outlive the block."""
        await self.prepare(client)
        words = map(str, client.command(Ask(verb, self.url(path))))
        return started(self.home, *words, environment=self.environment(client))


@asynccontextmanager
async def staged[U: RawUpstream | Http2Upstream](
    folder: Path, upstream: U, host: str = "", other: str = ""
) -> AsyncIterator[Stage[U]]:
    """Put an upstream behind the proxy, and a home in front of it; the rest is as in `through`."""
    home = folder / "home"
    home.mkdir()
    async with through(folder, upstream, host, other) as scene:
        yield before(scene, home)
    lighten(home)


def before[U](scene: Scene[U], home: Path) -> Stage[U]:
    """Put a home in front of a scene that is there already."""
    bundle = scene.stack.folder / "egress-bundle.pem"
    bundle.write_bytes(merged_bundle(scene.ca.read_bytes()))
    return Stage(scene, bundle, home)


def lighten(home: Path) -> None:
    """Keep what tells how it went, and not the large files: pytest keeps the folders of several runs."""
    for path in home.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_size > MOST_KEPT:
            path.unlink()


def over_http1(folder: Path) -> AbstractAsyncContextManager[Stage[RawUpstream]]:
    """What most proofs stand on."""
    return staged(folder, RawUpstream(certs.good(NAME, OTHER)))


def over_http2(folder: Path) -> AbstractAsyncContextManager[Stage[Http2Upstream]]:
    """An upstream that speaks HTTP/2 and nothing else, and a rule that opens it."""
    return staged(folder, Http2Upstream(certs.good(NAME, OTHER, alpn=HTTP2)), "http2: true")
