"""What a client in a pod does: its connections come from the address of the pod."""

from __future__ import annotations

import asyncio
import ssl

from bench.kubernetes.setting import GATEWAY, Gateway
from bench.proxy.setting import API
from tests.proxy.lab.certificates import trusting
from tests.proxy.lab.client import Peer, connect

UNKNOWN_HOST = "nowhere.bench.test"
"""In no rule: whoever has rights is told that, and others that they have none."""


class PodClient:
    """Clients of one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._trust: ssl.SSLContext = trusting(gateway.ca.read_bytes(), ("http/1.1",))
        self.host = f"{API}:{gateway.upstream}"

    async def open(self, address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection on which nothing was said."""
        return await asyncio.open_connection(GATEWAY, self._gateway.port, local_addr=(address, 0))

    async def refusal(self, address: str, host: str = UNKNOWN_HOST) -> str:
        """The code of the refusal of a request in clear text, which costs the gateway least."""
        head = await self._ask(address, f"GET http://{host}/ HTTP/1.1\r\nhost: {host}\r\n\r\n")
        return head.partition("egress-denied: ")[2].partition("\r\n")[0]

    async def passes_gate(self, address: str, uid: str) -> bool:
        """Ask as the gate of a pod does whether the gateway knows this pod by its address."""
        body = f'{{"uid":"{uid}","nonce":"{uid}"}}'
        fields = f"host: {GATEWAY}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        head = await self._ask(address, f"POST /gate HTTP/1.1\r\n{fields}\r\n{body}")
        return head.startswith("http/1.1 204 ") and f"egress-nonce: {uid}\r\n" in head

    async def _ask(self, address: str, request: str) -> str:
        """The head of the answer in lower case; empty if the connection was cut."""
        reader, writer = await self.open(address)
        try:
            writer.write(request.encode())
            return (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        except (asyncio.IncompleteReadError, ConnectionError):
            return ""
        finally:
            writer.close()

    async def visit(self, address: str) -> Peer:
        """A connection to the upstream through the gateway, with TLS inside."""
        to = ("127.0.0.1", self._gateway.upstream)
        return await connect(to, API, self._trust, proxy=(GATEWAY, self._gateway.port), source=address)
