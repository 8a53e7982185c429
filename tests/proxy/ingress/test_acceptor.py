"""Accepting when the system has run out of something."""

from __future__ import annotations

import asyncio
import errno
import socket
import subprocess
import sys

import pytest

from egress.proxy.event_loop import make_turns
from egress.proxy.ingress.acceptor import Acceptor
from egress.proxy.ingress.listener import listen
from egress.shares.turns import TURN_SECONDS
from tests.unit.proxy.ingress_fixture import until


class Short(socket.socket):
    """A listening socket whose `accept` fails some times."""

    failures: list[int]
    asked = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.asked += 1
        if self.failures:
            number = self.failures.pop(0)
            raise OSError(number, "out of something")
        return super().accept()


def short(*failures: int) -> Short:
    plain = listen("127.0.0.1", 0)
    sock = Short(plain.family, plain.type, plain.proto, plain.detach())
    sock.failures = list(failures)
    return sock


@pytest.mark.parametrize("has_backlog", [False, True])
async def test_accepts_in_turns_of_its_sandbox_whatever_else_that_has_to_do(*, has_backlog: bool) -> None:
    """A flood of connections is work like any other; and other work never keeps all of them out."""
    clock = 0.0
    turns = make_turns(lambda: clock)
    turns.of("other")
    sandbox = turns.of("box")
    rounds: list[int] = []
    taken: list[socket.socket] = []

    def take(connection: socket.socket) -> None:
        nonlocal clock
        clock += TURN_SECONDS
        rounds.append(turns.round)
        taken.append(connection)

    def toil() -> None:
        nonlocal clock
        clock += TURN_SECONDS
        if len(taken) < 20:
            sandbox.wait(toil)

    if has_backlog:
        toil()
    sock = listen("127.0.0.1", 0)
    acceptor = Acceptor(sock, take, 1.0, turns=sandbox)
    clients = [socket.create_connection(sock.getsockname()) for _ in range(20)]
    await until(lambda: len(taken) == 20)
    assert len(set(rounds)) == 20, "one in a round, since each took all of a turn"
    acceptor.close()
    for connection in (*clients, *taken):
        connection.close()


async def test_hands_over_every_connection_without_blocking() -> None:
    taken: asyncio.Queue[socket.socket] = asyncio.Queue()
    sock = listen("127.0.0.1", 0)
    acceptor = Acceptor(sock, taken.put_nowait, 1.0)
    clients = [socket.create_connection(sock.getsockname()) for _ in range(40)]
    for _ in clients:
        with await taken.get() as connection:
            assert connection.gettimeout() == 0
    acceptor.close()
    for client in clients:
        client.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EPERM])
async def test_pauses_after_a_shortage_instead_of_trying_again_at_once(number: int) -> None:
    taken: asyncio.Queue[socket.socket] = asyncio.Queue()
    sock = short(number, number)
    acceptor = Acceptor(sock, taken.put_nowait, 0.05)
    with socket.create_connection(sock.getsockname()):
        (await taken.get()).close()
    # Two failures, the connection, and at most a last look that finds none: not one more.
    assert sock.asked <= 4
    acceptor.close()


async def test_a_client_that_is_gone_again_costs_no_pause() -> None:
    taken: asyncio.Queue[socket.socket] = asyncio.Queue()
    sock = short(errno.ECONNABORTED)
    acceptor = Acceptor(sock, taken.put_nowait, 3600.0)
    with socket.create_connection(sock.getsockname()):
        (await taken.get()).close()
    acceptor.close()


async def test_closing_ends_a_pause_too() -> None:
    sock = short(*[errno.EMFILE] * 100)
    acceptor = Acceptor(sock, lambda _: None, 0.01)
    with socket.create_connection(sock.getsockname()):
        await until(lambda: sock.asked > 0)
    acceptor.close()
    asked = sock.asked
    await asyncio.sleep(0.05)
    assert sock.asked == asked
    assert sock.fileno() == -1


SCARCE = """
import asyncio, resource, socket, time
from egress.proxy.ingress.acceptor import Acceptor
from egress.proxy.ingress.listener import listen
from tests.unit.proxy.ingress_fixture import until

async def main():
    sock, taken = listen("127.0.0.1", 0), []
    clients = [socket.socket() for _ in range(30)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (45, 45))
    acceptor = Acceptor(sock, taken.append, 0.05)
    for client in clients:
        client.connect(sock.getsockname())
    begun = time.process_time()
    await asyncio.sleep(0.5)
    spent, first = time.process_time() - begun, len(taken)
    for connection in taken:
        connection.close()
    while len(taken) < len(clients):
        await asyncio.sleep(0.01)
        for connection in taken:
            connection.close()
    print(first < len(clients), spent < 0.25)

asyncio.run(main())
"""


def test_a_process_without_descriptors_neither_spins_nor_gives_up() -> None:
    """The real thing: a limit of the system, and clients that wait in its queue until there is room."""
    done = subprocess.run([sys.executable, "-c", SCARCE], capture_output=True, text=True, check=False)
    assert done.stdout == "True True\n", done.stderr


KEPT = """
import asyncio, os, resource, socket
from egress.proxy.ingress.acceptor import Acceptor
from egress.proxy.ingress.listener import listen
from tests.unit.proxy.ingress_fixture import until

async def main():
    many, few, taken, answered = listen("127.0.0.1", 0), listen("127.0.0.1", 0), [], []
    clients = [socket.socket() for _ in range(61)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))
    acceptor = Acceptor(many, taken.append, 0.02)
    operator = Acceptor(few, answered.append, 0.02, reserve=0)
    for client in clients[:-1]:
        client.connect(many.getsockname())
    await until(lambda: acceptor._resumption is not None)
    highest = max(connection.fileno() for connection in taken)
    clients[-1].connect(few.getsockname())
    await until(lambda: answered)
    print(highest < 120 - 15, len(taken) < 60, answered[0].fileno() > highest)

asyncio.run(main())
"""


def test_the_last_descriptors_are_for_the_operator() -> None:
    done = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, check=False)
    assert done.stdout == "True True True\n", done.stderr
