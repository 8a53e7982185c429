"""Readiness over TCP: yes, or no with the reasons, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from egress.errors import UnreadableError
from egress.proxy.control import ready_listener
from egress.proxy.control.ready_listener import ReadyListener
from egress.proxy.setting_values import ListenAddress

GET = b"GET /ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Ready:
    """A listener, and what it says."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.listener = ReadyListener(ListenAddress("127.0.0.1", 0), lambda: self.problems)

    async def ask(self, data: bytes) -> tuple[int, str]:
        reader, writer = await asyncio.open_connection(self.listener.at.host, self.listener.at.port)
        writer.write(data)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        return int(head.split(b" ")[1]) if head else 0, body.decode()


@pytest.fixture
async def ready() -> AsyncIterator[Ready]:
    found = Ready()
    found.listener.open()
    yield found
    await found.listener.close()


async def test_it_says_yes_or_why_not(ready: Ready) -> None:
    assert await ready.ask(GET) == (200, "ready\n")
    ready.problems = ["it is stopping", "the pods of the cluster are not known"]
    assert await ready.ask(GET) == (503, "it is stopping\nthe pods of the cluster are not known\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        (b"GET /ready?x HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        (b"POST /ready HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (b"POST /ready HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", 400),
        (b"GET http://a/ready HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 400),
        (b"\x16\x03\x01", 400),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", 400),
    ],
)
async def test_nothing_else_is_served(ready: Ready, request_: bytes, status: int) -> None:
    assert (await ready.ask(request_))[0] == status


async def test_who_says_nothing_is_let_go(ready: Ready, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_listener, "_TIMEOUT", 0.05)
    assert await ready.ask(b"GET") == (0, "")
    assert await ready.ask(GET) == (200, "ready\n")


async def test_a_taken_port_is_an_error_that_names_it(ready: Ready) -> None:
    with pytest.raises(UnreadableError, match=f"readiness cannot be told on {ready.listener.at}"):
        ReadyListener(ready.listener.at, list).open()
