"""A proxy with two sandboxes, upstreams, and runs that have tickets."""

from __future__ import annotations

import base64
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from egress.ca.authority import Authority
from egress.proxy.clock import SystemClock
from egress.proxy.control.server import ControlReply
from egress.proxy.control.ticket_routes import TicketRoutes
from egress.proxy.ingress.listener import Listener, listen
from egress.proxy.lanes.engine import ServedSandbox
from egress.run_ticket import SEED_BYTES, ticket_digest, ticket_id, ticket_text
from egress.types import Identity
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.client import Peer, at, connect, dial
from tests.proxy.lab.http1 import Response
from tests.proxy.lab.proxy_stack import NAME, OTHER, SANDBOX, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream

CERTS = Certificates()
NEIGHBOUR = "neighbour"


class MovedClock(SystemClock):
    """The time of the machine, and some more; or one moment of it."""

    def __init__(self) -> None:
        self.more = 0.0
        self.moment: float | None = None

    def monotonic(self) -> float:
        return super().monotonic() + self.more if self.moment is None else self.moment


def credentials(ticket: str) -> str:
    """The field by which a client shows a ticket, as `http://TICKET@proxy:port` makes it."""
    return f"proxy-authorization: Basic {base64.b64encode(f'{ticket}:'.encode()).decode()}\r\n"


def new_ticket() -> str:
    return ticket_text(secrets.token_bytes(SEED_BYTES))


@dataclass
class Runs:
    """A proxy with two sandboxes, and what their runs are."""

    stack: ProxyStack
    plain: RawUpstream
    tls: RawUpstream
    tunnelled: RawUpstream
    clock: MovedClock
    neighbour_port: int = 0
    shown: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.routes = TicketRoutes(self.stack.engine, self.stack.tickets)

    async def ask(self, method: str, sandbox: str, **body: object) -> ControlReply:
        handler = self.routes.routes()[method, "/tickets/*"]
        return await handler({"name": sandbox, **body})

    async def start(
        self, profile: str = "writer", sandbox: str = SANDBOX, ttl: int = 60, **body: object
    ) -> str:
        """The ticket of a new run."""
        ticket = new_ticket()
        self.shown.append(ticket)
        reply = await self.ask(
            "POST", sandbox, digest=ticket_digest(ticket), profile=profile, ttl=ttl, **body
        )
        assert reply.status == 201, reply.body
        return ticket

    async def end(self, ticket: str, sandbox: str = SANDBOX) -> ControlReply:
        return await self.ask("DELETE", sandbox, ticket=ticket_id(ticket_digest(ticket)))

    async def fetch(self, ticket: str = "", port: int = 0, path: str = "/echo") -> Response:
        """One request in clear text, on a connection of its own."""
        async with await dial(at(port or self.stack.port)) as peer:
            return await self.get(peer, ticket, path)

    async def get(self, peer: Peer, ticket: str = "", path: str = "/echo") -> Response:
        host = f"{NAME}:{self.plain.port}"
        return await peer.get(f"http://{host}{path}", host, credentials(ticket) if ticket else "")

    async def secure(self, ticket: str = "", name: str = NAME) -> Peer:
        """A connection through a CONNECT, with TLS inside of it."""
        upstream = self.tls if name == NAME else self.tunnelled
        trust = self.stack.trust("http/1.1") if name == NAME else CERTS.trust()
        extra = credentials(ticket) if ticket else ""
        return await connect(at(upstream.port), name, trust, proxy=self.stack.proxy, extra=extra)

    def lines(self, kind: str) -> list[dict[str, object]]:
        return [line for line in self.stack.lines() if line["event"] == kind]


def rules(plain: RawUpstream, tls: RawUpstream, tunnelled: RawUpstream) -> str:
    hosts = f"hosts: [{NAME}, {OTHER}]"
    return f"""
version: 1
parameters:
  repo: {{pattern: "acme/[a-z]+"}}
profiles:
  default: {{hosts: [nothing.example.test]}}
  writer: {{{hosts}}}
hosts:
  nothing.example.test: {{}}
  {NAME}:
    ports: [{tls.port}]
    http: [{plain.port}]
    addresses: [127.0.0.1/32]
    allow: [{{id: echo, paths: [/echo]}}, {{id: repo, paths: ["/{{param.repo}}"]}}]
  {OTHER}: {{ports: [{tunnelled.port}], addresses: [127.0.0.1/32], intercept: never}}
"""


def written_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@asynccontextmanager
async def open_runs(tmp_path: Path, more_rules: str = "") -> AsyncIterator[Runs]:
    clock = MovedClock()
    async with (
        RawUpstream() as plain,
        RawUpstream(CERTS.good(NAME)) as tls,
        RawUpstream(CERTS.good(OTHER)) as tunnelled,
        ProxyStack(tmp_path, CERTS, rules(plain, tls, tunnelled) + more_rules, clock=clock) as stack,
    ):
        neighbour = ServedSandbox(Identity(NEIGHBOUR), Authority.create(NEIGHBOUR, 0), bytes(range(32)))
        stack.engine.sandboxes[NEIGHBOUR] = neighbour
        _, port = await stack.door.open(Listener("n", "proxy", NEIGHBOUR, listen("127.0.0.1", 0)))
        made = Runs(stack, plain, tls, tunnelled, clock, port)
        yield made
        # Whatever a test did: no ticket is in any file of the proxy.
        stack.audit.flush()
        written = written_below(tmp_path)
        assert all(ticket.encode() not in written for ticket in made.shown)
        # Nor has any upstream got one.
        heads = [bytes(request.raw) for each in (plain, tls, tunnelled) for request in each.requests]
        assert not any(b"proxy-authorization" in head.lower() for head in heads)
