"""aiohttp, asked by a command line. It reads the proxy from the environment where the program says so."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import aiohttp  # type: ignore[import-not-found]  # fetched by the tests that need it


async def main(verb: str, url: str, file: str = "") -> None:
    async with aiohttp.ClientSession(trust_env=True, raise_for_status=True) as session:
        if verb == "websocket":
            async with session.ws_connect(url) as socket:
                await socket.send_str("hello from the sandbox")
                sys.stdout.write(await socket.receive_str())
        elif verb == "put":
            with Path(file).open("rb") as body:  # noqa: ASYNC230 - as a user would
                await show(session.put(url, data=body))
        else:
            await show(session.get(url))


async def show(asked: aiohttp.client._RequestContextManager) -> None:
    async with asked as answer:
        async for part in answer.content.iter_any():
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()


asyncio.run(main(*sys.argv[1:]))
