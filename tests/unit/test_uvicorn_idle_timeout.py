"""When a connection is closed for its silence. The page and the API close theirs in tests of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast
from unittest.mock import Mock

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from egress.uvicorn_idle_timeout import TimedConnection

_TIMEOUT = 10
_WEBSOCKET = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


async def _silent(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.Event().wait()


class Timers:
    """A loop that notes what is to happen later."""

    def __init__(self) -> None:
        self.due: dict[object, float] = {}

    def call_later(self, delay: float, _call: Callable[[], object]) -> Mock:
        handle = Mock()
        self.due[handle] = delay
        handle.cancel.side_effect = lambda: self.due.pop(handle, None)
        return handle


async def _connected(timers: Timers, monkeypatch: pytest.MonkeyPatch) -> TimedConnection:
    config = uvicorn.Config(
        _silent,
        http=TimedConnection,
        ws="wsproto",
        lifespan="off",
        log_config=None,
        timeout_keep_alive=_TIMEOUT,
    )
    config.load()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", timers.call_later)
    connection = TimedConnection(config, ServerState(), {}, loop)
    transport = Mock(spec=asyncio.Transport)
    transport.get_extra_info.return_value = None
    transport.is_closing.return_value = False
    connection.connection_made(cast("asyncio.Transport", transport))
    return connection


async def test_a_request_in_parts_does_not_begin_the_time_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers()
    connection = await _connected(timers, monkeypatch)
    first = list(timers.due)
    assert list(timers.due.values()) == [_TIMEOUT]
    for part in (b"GET / HT", b"TP/1.1\r\n", b"Host: a\r\n"):
        connection.data_received(part)
    assert list(timers.due) == first


async def test_a_whole_request_ends_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers()
    connection = await _connected(timers, monkeypatch)
    connection.data_received(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert not timers.due
    connection.connection_lost(None)


async def test_a_websocket_ends_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers()
    connection = await _connected(timers, monkeypatch)
    due = set(timers.due)
    connection.data_received(_WEBSOCKET)
    assert connection.is_upgraded
    assert not due & set(timers.due)
    assert _TIMEOUT not in timers.due.values()
