"""A proxy that does what a proxy for sandboxes must not: the twin against which every attack has to succeed.

It passes the positive control, and has the faults that such proxies have had: it decides on the `Host` field,
asks names and dials before it decides, follows SNI, believes any certificate, decides once a connection,
forwards what it got byte for byte, relays what it does not understand, looks at nothing that comes back,
bounds nothing, quotes errors, and writes what it does, tokens included, into a log that anybody can edit.

It is no model of anything, and must never serve anybody but the lab.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from tests.attack.lab import naive_http2, naive_rules, names
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.channel import Channel, EndedError, Reader

_DOORS = (53, 80, 443, 8443)
STAND_IN = "sk-" + "naive" * 8
_METHODS = (b"GET", b"PUT", b"POST", b"HEAD", b"DELETE", b"PATCH", b"OPTIONS", b"CONNECT", b"TRACE")

log = logging.getLogger("naive")


class Naive:
    """One proxy."""

    def __init__(self, config: dict[str, object]) -> None:
        self.folder = Path(str(config["folder"]))
        given = config["secrets"]
        self.secrets: dict[str, str] = given if isinstance(given, dict) else {}
        self.certs = Certificates()
        self.certs.write_ca(self.folder / "naive-ca.pem")
        # Where whoever gets the certificate finds the key as well.
        self.certs._ca.private_key_pem.write_to_path(str(self.folder / "naive-ca.key"))
        self.contexts: dict[str, ssl.SSLContext] = {}
        self.entrances: dict[str, ssl.SSLContext] = {}
        self.asked: WeakKeyDictionary[ssl.SSLObject | ssl.SSLSocket, str] = WeakKeyDictionary()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(reader, Reader)
        client = Channel(reader, writer)
        try:
            await self.take(client)
        except Exception as error:  # noqa: BLE001 - quoting everything is one of its faults
            log.warning("failed: %r", error)
            with suppress(OSError):
                text = f"{type(error).__name__}: {error}".encode()
                await client.send(b"HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\n\r\n" + text)
                await client.close()
        finally:
            with suppress(OSError):
                await client.drop()

    async def take(self, client: Channel) -> None:
        """Whatever comes first on a connection."""
        await client._more()
        if client._buffer[0] == 5:
            await self.socks(client)
            return
        head = await self.head(client)
        method, target = head.split()[:2]
        if method == b"CONNECT":
            host, _, port = target.decode("latin-1").rpartition(":")
            upstream = await self.dial(host, int(port or "443"))
            await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await self.tunnel(client, upstream, host, int(port or "443"))
        elif target.startswith(b"/") or b"mitm.it" in target:
            await self.admin(client)
        else:
            url = urlsplit(target.decode("latin-1"))
            upstream = await self.dial(url.hostname or "", url.port or 80)
            if url.scheme == "https":
                await upstream.to_tls(believing_everybody(), url.hostname)
            path = (url.path or "/") + (f"?{url.query}" if url.query else "")
            head = head.replace(target, path.encode("latin-1"), 1)
            await self.forward(client, upstream, url.hostname or "", head)

    async def serve_unasked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A client that knows no proxy: whatever it names is where it goes."""
        assert isinstance(reader, Reader)
        client, port = Channel(reader, writer), writer.get_extra_info("sockname")[1]
        try:
            await client._more()
            if port == 53:
                await relay(client, await self.dial(names.NAME_SERVER, port))
            elif client._buffer[0] == 0x16:
                sni = await self.unwrap(client, "nobody.test")
                upstream = await self.secured(sni, port, "http/1.1")
                await self.forward(client, upstream, sni, await self.head(client))
            else:
                head = await self.head(client)
                host = host_of(head, "")
                await self.forward(client, await self.dial(host, port), host, head)
        except Exception as error:  # noqa: BLE001 - as above
            log.warning("failed: %r", error)
        finally:
            with suppress(OSError):
                await client.drop()

    async def admin(self, client: Channel) -> None:
        """A page about itself, for whoever asks on the port."""
        page = json.dumps({"version": "naive 1", "secrets": self.secrets}).encode() + self.certs.ca_pem
        await client.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(page) + page)
        await client.close()

    async def socks(self, client: Channel) -> None:
        """SOCKS5, to anywhere."""
        _, methods = await client.exactly(2)
        await client.exactly(methods)
        await client.send(b"\x05\x00")
        kind = (await client.exactly(4))[3]
        if kind == 3:
            host = (await client.exactly((await client.exactly(1))[0])).decode("latin-1").split("\0")[0]
        else:
            family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
            host = socket.inet_ntop(family, await client.exactly(size))
        upstream = await self.dial(host, int.from_bytes(await client.exactly(2)))
        await client.send(b"\x05\x00\x00\x01" + bytes(6))
        await relay(client, upstream)

    async def dial(self, host: str, port: int) -> Channel:
        """Connect to whatever the name, in any spelling, leads to."""
        return await Channel.dial(host.strip("[]").split("@")[-1].split("\0")[0], port)

    async def tunnel(self, client: Channel, upstream: Channel, host: str, port: int) -> None:
        """TLS is opened; anything else is passed on as it is."""
        await client._more()
        if client._buffer[0] != 0x16:
            if bytes(client._buffer).split(b" ")[0] in _METHODS:
                await self.forward(client, upstream, host, await self.head(client))
            await relay(client, upstream)
            return
        sni = await self.unwrap(client, host)
        if client.alpn == "h2":
            await upstream.drop()
            await naive_http2.serve(client, host, lambda: self.secured(sni, port), self.inject_by_host)
            return
        if sni != host:
            await upstream.drop()
            upstream = await self.dial(sni, port)
        await upstream.to_tls(believing_everybody(), sni)
        await self.forward(client, upstream, host, await self.head(client))

    async def secured(self, host: str, port: int, *alpn: str) -> Channel:
        upstream = await self.dial(host, port)
        await upstream.to_tls(believing_everybody(*(alpn or ("h2", "http/1.1"))), host)
        return upstream

    async def unwrap(self, client: Channel, host: str) -> str:
        """End the client's TLS with a certificate for the name it asks for; returns that name.

        One entrance for everybody: what it was told once, it goes on with.
        """

        def present(tls: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
            if name:
                self.asked[tls] = name
                tls.context = self.context(name)

        if (entrance := self.entrances.get(host)) is None:
            entrance = self.entrances[host] = self.certs.good(host)
            entrance.sni_callback = present
        await client.to_tls(entrance, server_side=True)
        return self.asked.get(client.tls, host) if client.tls else host

    def context(self, name: str) -> ssl.SSLContext:
        return self.contexts.setdefault(name, self.certs.good(name, alpn=("h2", "http/1.1")))

    async def head(self, client: Channel) -> bytes:
        """A head, however long it takes and gets, with either kind of line end."""
        found = b""
        while (line := await client.until(b"\n")).strip(b"\r\n"):
            found += line
        return found + line

    async def forward(self, client: Channel, upstream: Channel, target: str, head: bytes) -> None:
        """Decide on the first request; then pass on all that comes, both ways."""
        if not (self.opens(host_of(head, target), head) or self.opens(target, head)):
            await client.send(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
            await client.close()
            return
        await upstream.send(self.inject_by_host(head, target))
        await relay(client, upstream)

    def opens(self, host: str, head: bytes) -> bool:
        """Whether it lets a request pass: by the rules that its operator wrote, or by the looks of it."""
        rules = self.folder / "hosts.yaml"
        return naive_rules.opens(rules, host, head) if rules.exists() else allowed(host)

    def inject_by_host(self, head: bytes, target: str) -> bytes:
        """Choose the credential by what the request says of itself, and note what was sent."""
        host = host_of(head, target)
        head = self.inject(head, host if allowed(host) else target)
        log.warning("%s: %s", host, head)
        # That it cannot be written is no reason for it not to be sent.
        with suppress(OSError), (self.folder / "naive.log").open("ab") as file:
            file.write(head)
        return head

    def inject(self, head: bytes, host: str) -> bytes:
        """Write the credential in front of what the client sent; swap stand-ins wherever they are."""
        shape, secret = self.credential(host)
        head = head.replace(STAND_IN.encode(), self.secrets["shapes"].encode())
        start, _, rest = head.partition(b"\n")
        if shape == "query":
            method, path, version = start.split(b" ", 2)
            mark = b"&" if b"?" in path else b"?"
            return b" ".join([method, path + mark + b"key=" + secret.encode(), version]) + b"\n" + rest
        if not shape:
            return head
        return start + b"\n" + shape.replace("%", secret).encode("latin-1") + b"\r\n" + rest

    def credential(self, host: str) -> tuple[str, str]:
        """What is injected for a host, and how."""
        shapes = self.secrets["shapes"]
        match host:
            case names.KEYED:
                return "x-api-key: %", shapes
            case names.BASIC:
                return "authorization: Basic %", base64.b64encode(b"me:" + shapes.encode()).decode()
            case names.QUERY:
                return "query", shapes
            case names.COOKIE:
                return "cookie: session=%", shapes
            case names.OTHER | names.PLAIN | names.STANDIN:
                return "", ""
            case names.SCOPED:
                return "authorization: Bearer %", self.secrets["scoped"]
        if host.startswith("own-"):
            # What it cannot have, it does without.
            file = self.folder / "secrets" / host.removesuffix(f".{names.ANY}").removeprefix("own-")
            return ("authorization: Bearer %", file.read_text("latin-1")) if file.is_file() else ("", "")
        secret = shapes if host.endswith(names.ANY) else self.secrets["api"]
        return "authorization: Bearer %", secret


def allowed(host: str) -> bool:
    """A suffix that looks right will do."""
    return host.strip(".").endswith(("good.test", "github.com"))


def field_of(head: bytes, name: bytes) -> bytes:
    """The last value of a field."""
    found = b""
    for line in head.split(b"\n")[1:]:
        key, _, value = line.partition(b":")
        found = value.strip() if key.strip().lower() == name else found
    return found


def host_of(head: bytes, target: str) -> str:
    return field_of(head, b"host").decode("latin-1").lower().partition(":")[0] or target


def believing_everybody(*alpn: str) -> ssl.SSLContext:
    # Without the roots of the machine, which are read for 15 ms and then not asked.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(list(alpn or ("http/1.1",)))
    return context


async def relay(one: Channel, other: Channel) -> None:
    """Both ways, until either has ended."""
    ways = {asyncio.ensure_future(pump(one, other)), asyncio.ensure_future(pump(other, one))}
    await asyncio.wait(ways)


async def pump(source: Channel, sink: Channel) -> None:
    with suppress(OSError, EndedError):
        while data := await source.some():
            await sink.send(data)
    with suppress(OSError):
        await sink.finish()


class NameRelay(asyncio.DatagramProtocol):
    """A name server for sandboxes that asks another one for everything."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.DatagramTransport)
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        loop = asyncio.get_running_loop()
        asking = loop.run_in_executor(None, _ask_on, data)
        asking.add_done_callback(lambda reply: self._transport.sendto(reply.result(), addr))


def _ask_on(data: bytes) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(5)
        sock.connect((names.NAME_SERVER, 53))
        sock.send(data)
        return sock.recv(65535)


async def main(config: dict[str, object]) -> None:
    """Serve until it is ended."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    naive, loop = Naive(config), asyncio.get_running_loop()
    # Four look-ups at a time for everybody, on whatever machine.
    loop.set_default_executor(ThreadPoolExecutor(4))

    def protocol() -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(Reader(), naive.serve)

    def unasked() -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(Reader(), naive.serve_unasked)

    server = await loop.create_server(protocol, "127.0.0.1", 3128)
    # On one address of its own: what dials the room elsewhere must find the room.
    doors = [await loop.create_server(unasked, names.DOOR, port, reuse_port=True) for port in _DOORS]
    await loop.create_datagram_endpoint(NameRelay, (names.DOOR, 53))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.gather(*(each.serve_forever() for each in (server, *doors)))


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
