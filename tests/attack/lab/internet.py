"""The hosts of the lab's internet: the good, the attacker's, those nobody can trust, and all other addresses.

All run on one event loop in a thread of the test process, so a case can set what a host does, and look at
what it was sent, without asking anybody. What a host hears is kept byte for byte, whatever it makes of it.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Collection, Coroutine, Iterator
from dataclasses import dataclass
from typing import Final, Self

from tests.attack.lab import names
from tests.attack.lab.dns import NameServer, serve_names
from tests.attack.lab.hostile_handlers import HOSTILE
from tests.attack.lab.network import Network, Room
from tests.attack.lab.traffic_sniffer import MARK_ADDRESS
from tests.proxy.lab.certificates import HTTP2, Certificates
from tests.proxy.lab.channel import Channel, Reader
from tests.proxy.lab.http1 import Request
from tests.proxy.lab.http2 import Call, Http2Upstream
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.lab.server import Link, Upstream

KEPT: Final = 4 * 1024 * 1024
CANARY_PORTS: Final = (22, 25, 53, 80, 110, 443, 2375, 3128, 3306, 5432, 6379, 8000, 8080, 8443, 9200, 10250)
"""Ports on which every address of the internet, and every room itself, accepts and answers."""
_PATIENCE: Final = 10.0

Place = tuple[str, int]


class Heard(Channel):
    """A channel that keeps all that came, in clear."""

    def __init__(self, reader: Reader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self.peer = _place(writer, "peername")
        self.local = _place(writer, "sockname")
        self.data = bytearray()

    @property
    def is_tls(self) -> bool:
        return self.tls is not None

    async def _receive(self, most: int) -> bytes:
        data = await super()._receive(most)
        self.data += data[: max(0, KEPT - len(self.data))]
        return data


def _place(writer: asyncio.StreamWriter, which: str) -> Place:
    host, port = (writer.get_extra_info(which) or ("", 0))[:2]
    return host.removeprefix("::ffff:"), port


@dataclass(slots=True)
class Heeded:
    """One connection at a host."""

    name: str
    channel: Heard

    @property
    def data(self) -> bytes:
        """All that came on it, decrypted where it was TLS."""
        return bytes(self.channel.data)

    @property
    def peer(self) -> Place:
        return self.channel.peer

    @property
    def local(self) -> Place:
        return self.channel.local


class _Host(Upstream):
    """Listens on sockets that were made elsewhere; keeps all it hears; forgives its clients everything."""

    name = ""

    def open_on(self, name: str, *listeners: socket.socket) -> Self:
        self.name = name
        self._given = listeners
        self.connections: list[Heeded] = []
        self.troubles: list[Exception] = []
        return self

    def note(self, mistake: Exception) -> None:
        # Attackers send what no handler understands; that is not the lab's mistake.
        self.troubles.append(mistake)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._servers = [await loop.create_server(self._protocol, sock=sock) for sock in self._given]
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        await super().__aexit__()

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        reader = Reader()

        def arrived(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            channel = Heard(reader, writer)
            self.connections.append(Heeded(self.name, channel))
            task = asyncio.get_running_loop().create_task(self._run(channel))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return asyncio.StreamReaderProtocol(reader, arrived)


class Site(_Host, RawUpstream):
    """A host that speaks HTTP/1.1 and WebSocket; scripts and handlers by path."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__(tls)
        self._handlers |= HOSTILE

    def heard_requests(self) -> list[Request]:
        return list(self.requests)


class Http2Site(_Host, Http2Upstream):
    """A host that speaks HTTP/2 alone."""

    def heard_requests(self) -> list[Request]:
        """What was asked, written as HTTP/1.1 would."""
        return [_as_request(call) for call in list(self.requests)]


def _as_request(call: Call) -> Request:
    named = dict(call.fields)
    start = f"{call.method} {named.get(':path', '')} HTTP/2"
    fields = tuple(("host" if name == ":authority" else name, text) for name, text in call.fields)
    lines = [start, *(f"{name}: {text}" for name, text in fields), "", ""]
    raw = "\r\n".join(lines).encode("latin-1")
    return Request(start, fields, raw, body=call.body, complete=call.stream.complete, link=call.link)


class Canary(_Host, RawUpstream):
    """Whoever lives at all other addresses: takes what comes, in TLS under any name, and answers."""

    def __init__(self, certs: Certificates) -> None:
        super().__init__(None)
        self._certs = certs
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._entrance = certs.good("canary.test")
        self._entrance.sni_callback = self._present

    async def serve(self, link: Link, channel: Channel) -> None:
        await channel._more()
        if channel._buffer[0] == 0x16:
            channel.data.clear()  # type: ignore[attr-defined]  # what was ciphertext comes again, in clear
            await channel.to_tls(self._entrance, server_side=True)
            await channel._more()
        await channel.send(
            b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\nx-canary: 1\r\nconnection: close\r\n\r\nI sang!\n"
        )
        await channel.close()

    def _present(self, tls: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        if name:
            tls.context = self._contexts.setdefault(name, self._certs.good(name))


class Internet:
    """All hosts and the name server. `sites` has them by name; the attributes are the usual ones."""

    def __init__(self, network: Network, certs: Certificates) -> None:
        self.certs = certs
        self.dns = NameServer()
        self._room = network.internet
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="internet", daemon=True)
        self._hosts: list[_Host] = []
        self._taken: set[tuple[str, int]] = set()
        self._names: asyncio.Server | None = None
        # Barriers end here: an address where nobody listens would complain.
        self._drain = self._room.datagrams(MARK_ADDRESS, 9)
        self.sites: dict[str, Site] = {}
        for name in names.ADDRESSES:
            address = names.ADDRESSES[name]
            if name not in (names.HTTP2, names.PLAIN, names.BEHIND, f"*.{names.EVIL}"):
                self.sites[name] = self._site(name, address, self._context(name))
        self.h2 = Http2Site(certs.good(names.HTTP2, alpn=HTTP2))
        self._hosts.append(self.h2.open_on(names.HTTP2, self._room.listen(names.ADDRESSES[names.HTTP2], 443)))
        self.plain = self._site(names.PLAIN, names.ADDRESSES[names.PLAIN], None, 80)
        self.evil_plain = self._site(names.EVIL, names.ADDRESSES[names.EVIL], None, 80)
        self.canary = Canary(certs)
        everywhere = (self._room.listen("::", port) for port in CANARY_PORTS)
        self._hosts.append(self.canary.open_on("canary", *everywhere))
        for name, address in names.ADDRESSES.items():
            self.dns.set(name, address)

    def _site(self, name: str, address: str, tls: ssl.SSLContext | None, port: int = 443) -> Site:
        # Two could listen there, and would take turns.
        if (address, port) in self._taken:
            raise ValueError(f"{address}:{port} is another host's already, and not for {name}")
        self._taken.add((address, port))
        site = Site(tls).open_on(name, self._room.listen(address, port))
        self._hosts.append(site)
        return site

    def _context(self, name: str) -> ssl.SSLContext:
        certs = self.certs
        match name:
            case names.EXPIRED:
                return certs.expired(name)
            case names.WRONG_NAME:
                return certs.wrong_name()
            case names.SELF_SIGNED:
                return certs.self_signed(name)
            case names.UNKNOWN_CA:
                return certs.unknown_ca(name)
            case names.FRONT:
                return certs.good(name, names.BEHIND)
            case names.EVIL:
                return certs.good(name, f"*.{name}")
        return certs.good(name)

    # Its life

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self._open())
        return self

    async def _open(self) -> None:
        for host in self._hosts:
            await host.__aenter__()
        datagrams = self._room.datagrams(names.NAME_SERVER, 53)
        listener = self._room.listen(names.NAME_SERVER, 53)
        self._names = await serve_names(self.dns, datagrams, listener)

    def __exit__(self, *_: object) -> None:
        self.run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._drain.close()

    async def _close(self) -> None:
        for host in self._hosts:
            await host.__aexit__()
        if self._names is not None:
            self._names.close()
        self.dns._transport.close()
        # Lets transports come to their end before the loop does.
        await asyncio.sleep(0)

    def run[T](self, what: Coroutine[object, object, T]) -> T:
        """Do something on the hosts' loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(_PATIENCE)

    def settle(self) -> None:
        """Let the hosts read what the kernel has for them."""
        self.run(_rounds(8))

    def inhabit(self, room: Room, free: Collection[int] = ()) -> Canary:
        """Let every port of a room itself answer, too: on loopback, and on its own addresses."""
        ports = (port for port in CANARY_PORTS if port not in (3128, *free))
        listeners = (room.listen("::", port) for port in ports)
        canary = Canary(self.certs).open_on(f"canary in {room.name}", *listeners)
        self.run(canary.__aenter__())
        self._hosts.append(canary)
        return canary

    def move_in(self, name: str, address: str, tls: ssl.SSLContext | None, port: int = 443) -> Site:
        """Open a host at an address of its own; it stays as long as the lab. `name` is for its findings."""
        site = self._site(name, address, tls, port)
        self.run(site.__aenter__())
        return site

    # What they have

    @property
    def api(self) -> Site:
        return self.sites[names.API]

    @property
    def scoped(self) -> Site:
        return self.sites[names.SCOPED]

    @property
    def other(self) -> Site:
        return self.sites[names.OTHER]

    @property
    def sockets(self) -> Site:
        return self.sites[names.SOCKETS]

    @property
    def evil(self) -> Site:
        return self.sites[names.EVIL]

    @property
    def any(self) -> Site:
        return self.sites[f"*.{names.ANY}"]

    def all_sites(self) -> list[Site | Http2Site]:
        return [*self.sites.values(), self.plain, self.evil_plain, self.h2]

    def connections(self) -> Iterator[Heeded]:
        """Every connection that any host has had."""
        for host in self._hosts:
            yield from list(host.connections)


async def _rounds(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
