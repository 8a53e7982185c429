"""A gate that is stopped while the network answers: the answer counts as soon as it goes on."""

from __future__ import annotations

import asyncio
import socket
import time

from egress.doctor.fence import FenceAddress, answers, connects

SILENCE = 0.05
STOPPED = 4 * SILENCE


def stop() -> None:
    """Do what a limit on processor time does to this process."""
    time.sleep(STOPPED)


async def test_a_connection_that_was_taken_meanwhile_is_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        dialled = asyncio.create_task(connects(FenceAddress(*server.getsockname()), SILENCE))
        await asyncio.sleep(0)
        stop()
        assert await dialled
    # Nobody listens there any more.
    refused = asyncio.create_task(connects(FenceAddress("127.0.0.1", 1), SILENCE))
    await asyncio.sleep(0)
    stop()
    assert not await refused


async def test_a_name_server_that_answers_meanwhile_is_an_answer() -> None:
    for has_reply in (True, False):
        with socket.socket(type=socket.SOCK_DGRAM) as server:
            server.settimeout(20)
            server.bind(("127.0.0.2", 53))
            asked = asyncio.create_task(answers(FenceAddress(*server.getsockname()), SILENCE))
            # The tries begin as tasks of their own.
            for _ in range(4):
                await asyncio.sleep(0)
            client = server.recvfrom(512)[1]
            if has_reply:
                server.sendto(b"an answer", client)
            stop()
            assert await asked is has_reply
