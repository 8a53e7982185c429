"""The stand-in for the internet: it runs in a network namespace where every address is its own.

    python -m tests.cluster.outside_program RECORD CERTIFICATE

It takes every connection on ports 80 and 443 and writes a line about it: its peer, its address and its port.
Whoever goes on with TLS and HTTP is answered, and the head of the request is another line.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from pathlib import Path
from typing import IO, Any

MAX_HEAD_BYTES = 64 * 1024


class Outside:
    """The servers, and the file that says who came."""

    def __init__(self, record: IO[str], context: ssl.SSLContext) -> None:
        self._record = record
        self._context = context

    async def serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            for port in (80, 443):
                server = await asyncio.start_server(self._take, "0.0.0.0", port, limit=MAX_HEAD_BYTES)
                group.create_task(server.serve_forever())

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer, own = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        # Before anything is read: a connection alone is what a fence must not let out.
        self._write({"peer": peer[0], "address": own[0], "port": own[1]})
        try:
            if own[1] == 443:
                await writer.start_tls(self._context)
            while head := await reader.readuntil(b"\r\n\r\n"):
                self._write({"peer": peer[0], "head": head.decode("latin-1")})
                body = json.dumps({"peer": peer[0]}).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                    % (len(body), body)
                )
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _write(self, line: dict[str, Any]) -> None:
        self._record.write(json.dumps(line) + "\n")
        self._record.flush()


def main(record: str, certificate: str) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    with Path(record).open("a", encoding="utf-8") as file:
        asyncio.run(Outside(file, context).serve())


if __name__ == "__main__":
    main(*sys.argv[1:])
