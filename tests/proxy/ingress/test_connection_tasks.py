"""ConnectionTasks are bounded in number, and no socket outlives its own."""

from __future__ import annotations

import asyncio
import socket

from egress.proxy.ingress.connection_tasks import ConnectionTasks


def is_closed(theirs: socket.socket) -> bool:
    theirs.settimeout(5)
    return theirs.recv(1) == b""


async def test_the_socket_is_closed_at_the_end_of_its_conversation() -> None:
    async def talk(sock: socket.socket) -> None:
        await asyncio.get_running_loop().sock_sendall(sock, b"x")

    conversations = ConnectionTasks(talk, 1)
    for _ in range(3):
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        conversations.begin(ours)
        for _ in range(5):
            await asyncio.sleep(0)
        assert ours.fileno() < 0
        with theirs:
            assert theirs.recv(1) == b"x"
            assert is_closed(theirs)


async def test_one_too_many_is_closed_and_all_end_with_the_rest() -> None:
    begun: list[socket.socket] = []

    async def talk(sock: socket.socket) -> None:
        begun.append(sock)
        await asyncio.Event().wait()

    conversations = ConnectionTasks(talk, 2)
    pairs = [socket.socketpair() for _ in range(4)]
    for ours, _ in pairs[:3]:
        conversations.begin(ours)
    await asyncio.sleep(0)
    assert begun == [ours for ours, _ in pairs[:2]]
    assert pairs[2][0].fileno() < 0
    await conversations.close()
    assert all(ours.fileno() < 0 for ours, _ in pairs[:3])
    # One that was cancelled before it began is closed too.
    conversations.begin(pairs[3][0])
    await conversations.close()
    assert pairs[3][0].fileno() < 0
    assert len(begun) == 2
    for _, theirs in pairs:
        with theirs:
            assert is_closed(theirs)


async def test_a_failure_closes_its_socket_and_ends_no_other() -> None:
    async def talk(_: socket.socket) -> None:
        raise OSError("gone")

    conversations = ConnectionTasks(talk, 1)
    ours, theirs = socket.socketpair()
    conversations.begin(ours)
    await conversations.close()
    with theirs:
        assert is_closed(theirs)
