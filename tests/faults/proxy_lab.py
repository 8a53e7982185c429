"""A proxy as a process, with an upstream of each kind, and clients of each kind that keep books.

    async with Estate.of(tmp_path) as estate:
        crowd = Crowd(estate)
        ...

Every request has a path of its own, `/small/c3-17`: what upstreams have seen, what clients were told and
what the log says can be compared, request by request.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, override

from tests.cli.command import put
from tests.proxy.lab.certificates import HTTP1, HTTP2, Certificates, trusting
from tests.proxy.lab.client import Peer, at, connect
from tests.proxy.lab.http2 import Http2Upstream
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.serve_process import ServeProcess

API: Final = "api.example.test"
STREAMS: Final = "streams.example.test"
"""Speaks HTTP/2."""
OPEN: Final = "open.example.test"
"""No secret is injected there."""
BLIND: Final = "blind.example.test"
"""Is carried unread."""
NAMES: Final = (API, STREAMS, OPEN, BLIND)
SECRET: Final = "sesame-open-sesame-42"
CREDENTIAL: Final = f"Bearer {SECRET}"

ALL_RULE: Final = '{id: all, paths: ["/**"], websocket: true}'
SHORT_LIFE: Final = timedelta(days=30)
"""Of the certificate of the host without a secret."""

certs: Final = Certificates()


class ByFirst[Handler](dict[str, Handler]):
    """Handlers by the first segment of a path; notes each path that it is asked for."""

    def __init__(self, handlers: dict[str, Handler], saw: Callable[[str], object]) -> None:
        super().__init__(handlers)
        self._saw = saw

    @override
    def get(self, key: str, default: object = None, /) -> Handler:
        self._saw(key)
        return self["/" + key.split("/", 2)[1]]


@dataclass
class ProxyLab:
    """What the tests of this folder own."""

    folder: Path
    served: ServeProcess
    api: RawUpstream
    streams: Http2Upstream
    open: RawUpstream
    seen: Counter[str] = field(default_factory=Counter)
    """How often each path has come to an upstream, with the credential where there is to be one."""
    trust: dict[str, ssl.SSLContext] = field(default_factory=dict)

    @classmethod
    @contextlib.asynccontextmanager
    async def of(
        cls,
        folder: Path,
        *arguments: str,
        under: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        source: str = "",
        ttl: str = "",
        allow: str = "",
        starts: bool = True,
    ) -> AsyncIterator[ProxyLab]:
        """Start all of it.

        Args:
            folder: for all that it writes.
            arguments: of `egress serve`.
            under: what begins it.
            env: what stands in its environment.
            source: where the secret comes from; without it, a file.
            ttl: for how long a value holds.
            allow: what is allowed of the host with the secret; without it, everything.
            starts: whether the proxy is to be started.
        """
        api = RawUpstream(certs.good(API, BLIND), wants=CREDENTIAL)
        streams = Http2Upstream(certs.good(STREAMS, alpn=HTTP2), wants=CREDENTIAL)
        bare = RawUpstream(_lasting(SHORT_LIFE, OPEN, BLIND))
        async with api, streams, bare:
            source = source or f"file:{put(folder / 'secret', SECRET)}"
            source = f'"{source}"' + (f", ttl: {ttl}" if ttl else "")
            text = rules((api.port, streams.port, bare.port), source, allow or ALL_RULE)
            ca = certs.write_ca(folder / "upstream-ca.pem")
            resolved = [word for name in NAMES for word in ("--resolve", f"{name}=127.0.0.1")]
            served = ServeProcess(folder, text, ["--upstream-ca", str(ca), *resolved, *arguments], env=env)
            served.under = under
            estate = cls(folder, served, api, streams, bare)
            estate._keep_books()
            if starts:
                served.start()
                await estate.learn()
            try:
                yield estate
            finally:
                if served.port:
                    served.__exit__()

    async def learn(self) -> None:
        """Trust the proxy."""
        pem = (await asyncio.to_thread(self.served.egress, "ca", "export")).out.encode()
        self.trust = {alpn: trusting(pem, (alpn,)) for alpn in ("http/1.1", "h2")}

    def _keep_books(self) -> None:
        for upstream in (self.api, self.streams, self.open):
            upstream.keeps_log = False
            handlers: dict[str, object] = dict(upstream._handlers)
            upstream._handlers = ByFirst(handlers, self.saw)  # type: ignore[assignment]

    def saw(self, path: str) -> None:
        """A request has come to an upstream."""
        self.seen[path] += 1

    async def ask(self, method: str, path: str) -> tuple[int, dict[str, object]]:
        """The control socket, without a process for each question."""
        reader, writer = await asyncio.open_unix_connection(self.served.runtime / "control.sock")
        writer.write(f"{method} {path} HTTP/1.1\r\nhost: egress\r\nconnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        return int(head.split(b" ", 2)[1]), json.loads(body)

    # Clients

    def host(self, name: str) -> str:
        return f"{name}:{self.port_of(name)}"

    def port_of(self, name: str) -> int:
        return {API: self.api, STREAMS: self.streams, OPEN: self.open, BLIND: self.open}[name].port

    async def visit(self, name: str = API, alpn: str = "http/1.1") -> Peer:
        """A client whose tunnel stands."""
        trust = certs.trust((alpn,)) if name == BLIND else self.trust[alpn]
        return await connect(at(self.port_of(name)), name, trust, proxy=at(self.served.port))

    async def is_well(self) -> bool:
        """Whether a client is served now."""
        async with await self.visit() as peer:
            response = await peer.get("/small/well", self.host(API))
            return response.status == 200 and response.complete


def _lasting(life: timedelta, *names: str) -> ssl.SSLContext:
    """A server whose certificate ends soon."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(HTTP1)
    certs._ca.issue_cert(*names, not_after=datetime.now(UTC) + life).configure_cert(context)  # noqa: TID251
    return context


def rules(ports: tuple[int, int, int], source: str, allow: str) -> str:
    api, streams, bare = ports
    return f"""\
version: 1
secrets:
  tracker: {{from: {source}, hosts: ["{API}:{api}", "{STREAMS}:{streams}"]}}
hosts:
  {API}:
    ports: [{api}]
    addresses: [127.0.0.1/32]
    allow: [{allow}]
    deny: [{{id: no, paths: ["/denied/**"]}}]
    inject: [{{bearer: tracker}}]
  {STREAMS}:
    ports: [{streams}]
    addresses: [127.0.0.1/32]
    http2: true
    allow: all
    inject: [{{bearer: tracker}}]
  {OPEN}:
    ports: [{bare}]
    addresses: [127.0.0.1/32]
    allow: all
  {BLIND}:
    ports: [{bare}]
    addresses: [127.0.0.1/32]
    intercept: never
"""
