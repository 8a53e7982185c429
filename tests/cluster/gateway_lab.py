"""A proxy of a cluster as a process, between an API server, an upstream and pods: addresses of loopback.

API server and upstream run in a thread of their own, so that one proxy serves all tests of a file.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Self

from egress.kubernetes.watch_events import EventType, WatchKind
from tests.cli.command import put
from tests.cluster.fake_api_server import Json, running
from tests.cluster.fake_object_server import FakeObjectServer
from tests.proxy.injecting_proxy import BLIND, NAME, SECRET, certs, rules
from tests.proxy.lab.certificates import trusting
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import Peer, connect, dial
from tests.proxy.lab.http1 import Response
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.serve_process import ServeProcess, until
from tests.unit.proxy.dns_messages import Told, query, told

PODS, SANDBOXES, CLAIMS = WatchKind.PODS, WatchKind.SANDBOXES, WatchKind.CLAIMS
GATEWAY: Final = "127.77.0.1"
"""Not that of the upstream: transparent listeners have the port of the upstream."""
REPLICA: Final = "egress-proxy-0"


class GatewayLab:
    """The cluster, and its proxy."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        missing: frozenset[WatchKind] = frozenset(),
        gateway: str = GATEWAY,
        replica: str = REPLICA,
    ) -> None:
        self.folder = folder
        self.arguments = arguments
        self.gateway, self.replica = gateway, replica
        self.server = FakeObjectServer(missing=set(missing))
        self.upstream = RawUpstream(certs.good(NAME, BLIND))
        self.is_on_configmap = "--rules-configmap" in arguments
        self._addresses: Iterator[str] = (f"127.77.{a}.{b}" for a in range(1, 250) for b in range(1, 250))
        self._names: Iterator[int] = iter(range(1_000_000))
        self._ended: asyncio.Event
        self._loop: asyncio.AbstractEventLoop

    def __enter__(self) -> Self:
        begun = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(begun)))
        self._thread.start()
        assert begun.wait(30)
        if self.is_on_configmap:
            text = self.rules()
            self.do(lambda: self.server.set("configmaps", "egress-rules", {"hosts.yaml": text}))
        self.served = self.process(self.folder, self.gateway, self.replica)
        self.served.start()
        self.authority = self.served.egress("ca", "export").out.encode()
        return self

    def __exit__(self, *_: object) -> None:
        self.served.__exit__()
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    async def _run(self, begun: threading.Event) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        account = self.folder / "account"
        account.mkdir()
        (account / "namespace").write_text("agents")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.upstream)
            self.api_port = (await stack.enter_async_context(running(account, self.server))).port
            begun.set()
            await self._ended.wait()

    def process(self, folder: Path, gateway: str, replica: str) -> ServeProcess:
        """A replica at an address, which is not started yet."""
        ca = certs.write_ca(self.folder / "upstream-ca.pem")
        names = [word for name in (NAME, BLIND) for word in ("--resolve", f"{name}=127.0.0.1")]
        words = ["--upstream-ca", str(ca), *names, "--network", "--kubernetes", "--transparent", gateway]
        words += ["--service-account", str(self.folder / "account")]
        words += ["--dns", f"{gateway}:0", "--dns-answer", gateway, *self.arguments]
        env = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.api_port),
            "HOSTNAME": replica,
        }
        trusted, listen = not self.is_on_configmap, f"{gateway}:0"
        return ServeProcess(folder, self.rules(), words, env=env, trusted=trusted, listen=listen)

    def rules(self) -> str:
        """The text of the rules."""
        return rules(self.upstream.port, f"file:{put(self.folder / 'secret', SECRET)}")

    # The cluster

    def put(self, kind: WatchKind, value: Json, change: EventType = EventType.MODIFIED) -> None:
        self.do(lambda: self.server.put(kind, value, change))

    def delete(self, kind: WatchKind, value: Json) -> None:
        self.put(kind, value, EventType.DELETED)

    def do(self, work: Callable[[], None]) -> None:
        """Change something about the API server, and wait until it is changed."""
        done = threading.Event()

        def act() -> None:
            work()
            done.set()

        self._loop.call_soon_threadsafe(act)
        assert done.wait(10)

    def address(self) -> str:
        """An address that no test has had."""
        return next(self._addresses)

    def name(self, letter: str) -> str:
        return f"{letter}{next(self._names)}"

    def lines(self, event: str, count: int = 1, **wanted: object) -> list[dict[str, Any]]:
        """Wait for so many lines of the log that have these values."""

        def look() -> list[dict[str, Any]]:
            found = [
                line
                for line in self.served.records(event)
                if all(line.get(key) == value for key, value in wanted.items())
            ]
            return found if len(found) >= count else []

        return until(look, f"{count} x {event} with {wanted}")

    # Clients in pods

    @property
    def host(self) -> str:
        return f"{NAME}:{self.upstream.port}"

    async def visit(self, source: str, name: str = NAME) -> Peer:
        """A client at an address, connected to the upstream through the proxy."""
        trust = certs.trust(("http/1.1",)) if name == BLIND else trusting(self.authority, ("http/1.1",))
        to = ("127.0.0.1", self.upstream.port)
        return await connect(to, name, trust, proxy=(self.gateway, self.served.port), source=source)

    async def visit_transparently(self, source: str) -> Peer:
        """A client that knows no proxy: names lead it to the gateway."""
        trust = trusting(self.authority, ("http/1.1",))
        return await connect((self.gateway, self.upstream.port), NAME, trust, source=source)

    async def ask(self, source: str) -> tuple[int, str]:
        """One request on a connection of its own: status, and the code of a refusal."""
        async with await self.visit(source) as peer:
            return outcome(await peer.get("/echo", self.host))

    async def gate(self, source: str, uid: str) -> str:
        """The answer to the gate of a pod: a code, or the number of the question."""
        async with await dial((self.gateway, self.served.port), source) as peer:
            body = f'{{"uid": "{uid}", "nonce": "n-1"}}'
            head = f"POST /gate HTTP/1.1\r\nhost: {self.gateway}\r\ncontent-length: {len(body)}\r\n\r\n"
            response = await peer.request((head + body).encode())
        return response.header("egress-denied") or response.header("egress-nonce") or ""

    @property
    def names_port(self) -> int:
        return int(str(until(lambda: self.served.logged("proxy.ready"))[0]["dns"]).rpartition(":")[2])

    def ask_name(self, source: str) -> Told:
        """The answer to a question for the name of the upstream."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.settimeout(10)
            asking.bind((source, 0))
            asking.sendto(query(NAME), (self.gateway, self.names_port))
            return told(asking.recv(4096))

    async def becomes(self, source: str, status: int, code: str = "") -> None:
        """Ask until the answer is this one."""
        async with asyncio.timeout(20):
            while await self._ask_once(source) != (status, code):  # noqa: ASYNC110 - nobody tells the client
                await asyncio.sleep(0.01)

    async def _ask_once(self, source: str) -> tuple[int, str]:
        try:
            return await self.ask(source)
        except (EndedError, ConnectionError):
            # Cut, because the identity has changed meanwhile.
            return 0, ""


def outcome(response: Response) -> tuple[int, str]:
    """The status of a response, and the code of a refusal."""
    return response.status, response.header("egress-denied") or ""


async def readiness(port: int, host: str = "127.0.0.1", path: str = "/ready") -> tuple[int, str]:
    """The answer of a gateway to a kubelet."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split(b" ")[1]), body.decode()
