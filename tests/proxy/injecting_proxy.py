"""A proxy as a process, before an upstream of the lab that it injects a secret for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.cli.command import put
from tests.proxy.lab.certificates import Certificates, trusting
from tests.proxy.lab.client import Peer, RefusedError, at, connect
from tests.proxy.lab.http1 import Response
from tests.proxy.lab.raw_upstream import RawUpstream, Say, Stall
from tests.proxy.serve_process import ServeProcess

NAME = "api.example.test"
BLIND = "blind.example.test"
SECRET = "sesame-open-sesame-42"

certs = Certificates()


def rules(port: int, source: str, host: str = "allow: all") -> str:
    """The host with the secret, and one that is carried without being looked into."""
    return f"""\
version: 1
secrets:
  tracker: {{from: "{source}", hosts: ["{NAME}:{port}"]}}
hosts:
  {NAME}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    {host}
    inject: [{{bearer: tracker}}]
  {BLIND}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    intercept: never
"""


def made(
    folder: Path, upstream: RawUpstream, drain: str = "1s", source: str = "", host: str = "allow: all"
) -> ServeProcess:
    """The proxy, not started yet. The secret is in a file, and in the environment as TRACKER."""
    ca = certs.write_ca(folder / "upstream-ca.pem")
    names = [word for name in (NAME, BLIND) for word in ("--resolve", f"{name}=127.0.0.1")]
    arguments = ["--upstream-ca", str(ca), *names, "--drain", drain]
    text = rules(upstream.port, source or f"file:{put(folder / 'secret', SECRET)}", host)
    return ServeProcess(folder, text, arguments, env={"TRACKER": SECRET})


async def visit(served: ServeProcess, upstream: RawUpstream, name: str = NAME) -> Peer:
    """A client of the sandbox, connected to the upstream through the proxy."""
    pem = await asyncio.to_thread(served.egress, "ca", "export")
    trust = certs.trust(("http/1.1",)) if name == BLIND else trusting(pem.out.encode(), ("http/1.1",))
    return await connect(at(upstream.port), name, trust, proxy=at(served.port))


async def denied(served: ServeProcess, upstream: RawUpstream, name: str) -> Response:
    """What a client of a denied host reads: the answer to its CONNECT, or to its request inside of TLS."""
    try:
        peer = await visit(served, upstream, name)
    except RefusedError as error:
        return error.response
    async with peer:
        return await peer.get("/", f"{name}:{upstream.port}")


async def stall(served: ServeProcess, upstream: RawUpstream, name: str = NAME) -> Peer:
    """A request that the upstream has, and does not answer yet."""
    upstream.script("/stall", Stall(), Say(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone"))
    peer = await visit(served, upstream, name)
    await peer.send(f"GET /stall HTTP/1.1\r\nhost: {name}:{upstream.port}\r\n\r\n".encode())
    await upstream.until(lambda: bool(upstream.links and upstream.links[-1].heads))
    return peer
