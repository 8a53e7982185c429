"""The tests' upstream as a process: `python -m bench.proxy.serve http1|http2 PORT CHAIN KEY`."""

from __future__ import annotations

import asyncio
import ssl
import sys

from tests.proxy.lab.http2 import Http2Upstream
from tests.proxy.lab.raw_upstream import RawUpstream


async def serve(kind: str, port: int, chain: str, key: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    context.set_alpn_protocols(["h2"] if kind == "http2" else ["http/1.1"])
    upstream = Http2Upstream(context) if kind == "http2" else RawUpstream(context)
    upstream.keeps_log = False
    async with upstream.on(port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]))
