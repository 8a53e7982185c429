"""The protocol over streams: lines within bounds, answers as they are ready, and the end of the client."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.mcp.jsonrpc import INVALID_REQUEST, MAX_MESSAGE_BYTES, PARSE_ERROR
from egress.mcp.peer import McpPeer
from egress.mcp.stdio import LineSplitter, serve_stdio
from tests.mcp.lab import ENVELOPE, LASTING, McpLab, until_started


class StdioClient:
    """The client's ends of two pipes."""

    def __init__(self, sending: int, receiving: int) -> None:
        self.sending = sending
        self._receiving = open(receiving, "rb")  # noqa: SIM115 - closed with the client

    async def send(self, data: bytes) -> None:
        await asyncio.to_thread(os.write, self.sending, data)

    async def ask(self, method: str, request_id: int | str = 1, **params: object) -> None:
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        await self.send(json.dumps(message).encode() + b"\n")

    async def call(self, request_id: int | str, name: str, **arguments: object) -> None:
        await self.ask("tools/call", request_id, name=name, arguments=arguments, _meta=dict(ENVELOPE))

    async def answer(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await asyncio.to_thread(self._receiving.readline))
        return found

    def leave(self) -> None:
        if self.sending >= 0:
            os.close(self.sending)
            self.sending = -1

    def stop_reading(self) -> None:
        self._receiving.close()


@asynccontextmanager
async def client(lab: McpLab) -> AsyncIterator[tuple[StdioClient, asyncio.Task[None]]]:
    source, sending = os.pipe()
    receiving, target = os.pipe()
    serving = asyncio.ensure_future(serve_stdio(McpPeer(lab.tools), source, target))
    found = StdioClient(sending, receiving)
    try:
        yield found, serving
    finally:
        found.leave()
        try:
            await asyncio.wait_for(serving, 60)
        finally:
            for number in (source, target):
                os.close(number)
            found.stop_reading()


@given(st.lists(st.binary(max_size=12)), st.integers(0, 10))
def test_lines_are_split_whatever_the_pieces(pieces: list[bytes], bound: int) -> None:
    splitter = LineSplitter(bound)
    found = [line for piece in pieces for line in splitter.feed(piece)]
    *whole, _ = b"".join(pieces).split(b"\n")
    assert found == [line if len(line) <= bound else None for line in whole]


async def test_answers_come_as_they_are_ready(lab: McpLab) -> None:
    async with client(lab) as (peer, _):
        await peer.call("slow", "exec", command="sleep 1; echo slow")
        await peer.call("quick", "exec", command="echo quick")
        assert [(await peer.answer())["id"], (await peer.answer())["id"]] == ["quick", "slow"]


async def test_a_line_that_is_no_message_is_told_and_the_next_is_read(lab: McpLab) -> None:
    async with client(lab) as (peer, _):
        await peer.send(b"no json\n\n  \n[]\n")
        assert (await peer.answer())["error"]["code"] == PARSE_ERROR
        assert (await peer.answer())["error"]["code"] == INVALID_REQUEST
        sending = asyncio.ensure_future(peer.send(b"x" * (MAX_MESSAGE_BYTES + 10) + b"\n"))
        answer = await peer.answer()
        assert (answer["id"], answer["error"]["code"]) == (None, PARSE_ERROR)
        await sending
        await peer.ask("ping", 7)
        assert (await peer.answer())["id"] == 7


async def test_the_same_id_twice_is_told(lab: McpLab) -> None:
    async with client(lab) as (peer, _):
        await peer.call(1, "exec", command=LASTING)
        await peer.call(1, "exec", command="true")
        assert (await peer.answer())["error"]["code"] == INVALID_REQUEST
        await until_started(lab)


async def test_a_cancelled_request_is_not_answered(lab: McpLab) -> None:
    async with client(lab) as (peer, _):
        await peer.call(1, "exec", command=LASTING)
        await until_started(lab)
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        await peer.send(json.dumps(cancel).encode() + b"\n")
        ended = await asyncio.to_thread(lab.runtime.started[0].wait, 30)
        assert ended.exit_code != 0
        await peer.ask("ping", 2)
        assert (await peer.answer())["id"] == 2


@pytest.mark.parametrize("way", ["leave", "stop_reading"])
async def test_the_end_of_the_client_ends_its_commands(lab: McpLab, way: str) -> None:
    async with client(lab) as (peer, serving):
        await peer.call(1, "exec", command=LASTING)
        await until_started(lab)
        getattr(peer, way)()
        if way == "stop_reading":
            # The end is noticed with the next answer.
            await peer.ask("ping", 2)
        await asyncio.wait_for(asyncio.shield(serving), 30)
        assert lab.runtime.started[0].wait(30).exit_code != 0


async def test_a_client_that_does_not_read_is_not_read_on(lab: McpLab) -> None:
    """Its mistakes are answered, and the answers must not fill the memory."""
    async with client(lab) as (peer, _):
        os.set_blocking(peer.sending, False)
        sent = idle = 0
        # Until nothing was taken for half a second: pipes and queues are full.
        while idle < 10:
            try:
                sent += os.write(peer.sending, b"x\n" * 1000)
                idle = 0
            except BlockingIOError:
                idle += 1
                await asyncio.sleep(0.05)
        assert sent < 2_000_000
        peer.stop_reading()


def test_prints_do_not_get_into_the_messages() -> None:
    program = (
        "import os, sys; from egress.mcp.stdio import take_output; kept = take_output(); "
        "print('stray', flush=True); os.system('echo stray too'); os.write(kept, b'message')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "message"
    assert done.stderr.split("\n")[:2] == ["stray", "stray too"]
