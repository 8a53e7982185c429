"""The stand-in for the internet: it runs in a network namespace where every address is its own.

    python -m tests.cluster.outside_program RECORD CERTIFICATE REPOSITORIES

It takes every connection on the ports 80, 443 and 8443 and writes a line about it: peer, address and port.
Whoever goes on with TLS and HTTP is answered, and the head of the request is another line. At github.com the
answers are those of a git server. A path below /slow/ is answered in as many parts as its number says, one a
second.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from pathlib import Path
from typing import IO, Any, Final

from tests.cluster import git_backend

MAX_HEAD_BYTES: Final = 64 * 1024
TLS_PORTS: Final = (443, 8443)
GIT_HOST: Final = "github.com"


class Outside:
    """The servers, and the file that says who came."""

    def __init__(self, record: IO[str], context: ssl.SSLContext, repositories: Path) -> None:
        self._record = record
        self._context = context
        self._repositories = repositories

    async def serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            for port in (80, *TLS_PORTS):
                server = await asyncio.start_server(self._take, "0.0.0.0", port, limit=MAX_HEAD_BYTES)
                group.create_task(server.serve_forever())

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer, own = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        # Before anything is read: a connection alone is what a fence must not let out.
        self._write({"peer": peer[0], "address": own[0], "port": own[1]})
        try:
            if own[1] in TLS_PORTS:
                await writer.start_tls(self._context)
            while head := await reader.readuntil(b"\r\n\r\n"):
                self._write({"peer": peer[0], "head": head.decode("latin-1")})
                await self._answer(head.decode("latin-1"), peer[0], reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, head: str, peer: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        target = head.split(" ")[1]
        if f"\r\nhost: {GIT_HOST}\r\n" in head.lower():
            writer.write(await git_backend.answer(self._repositories, head, reader))
        elif target.startswith("/slow/"):
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for number in range(int(target.rpartition("/")[2])):
                line = b"%d\n" % number
                writer.write(b"%x\r\n%b\r\n" % (len(line), line))
                await writer.drain()
                await asyncio.sleep(1)
            writer.write(b"0\r\n\r\n")
        else:
            body = json.dumps({"peer": peer}).encode()
            fields = b"Content-Type: application/json\r\nContent-Length: %d" % len(body)
            writer.write(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (fields, body))
        await writer.drain()

    def _write(self, line: dict[str, Any]) -> None:
        self._record.write(json.dumps(line) + "\n")
        self._record.flush()


def main(record: str, certificate: str, repositories: str) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    with Path(record).open("a", encoding="utf-8") as file:
        asyncio.run(Outside(file, context, Path(repositories)).serve())


if __name__ == "__main__":
    main(*sys.argv[1:])
