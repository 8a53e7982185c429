"""Listeners are opened all or none, taken away, and brought back at the same place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from egress.errors import UnreadableError
from egress.proxy.listener import Listener, listen
from egress.proxy.listening import Listening
from egress.proxy.settings import Listen, Settings


class Door:
    """A door that only knows its listeners."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []

    async def open(self, listener: Listener) -> tuple[str, int]:
        self.listeners.append(listener)
        host, port = listener.sock.getsockname()[:2]
        return host, port

    async def close_sandbox(self, sandbox: str) -> None:
        for listener in self.listeners:
            assert listener.sandbox == sandbox
            listener.sock.close()
        self.listeners.clear()


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    door = Door()
    yield door
    for listener in door.listeners:
        listener.sock.close()


def values(*addresses: str, **more: object) -> Settings:
    return Settings.model_validate({"listen": addresses, "sandbox": "box", **more})


async def can_dial(at: Listen) -> bool:
    try:
        _, writer = await asyncio.open_connection(at.host, at.port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


async def test_every_address_is_opened_for_the_sandbox(door: Door) -> None:
    listening = Listening(door, values("127.0.0.1:0", "127.0.0.1:0"), b"")
    assert listening.addresses == {}
    await listening.open()
    one, two = listening.addresses["box"]
    assert one.port != two.port
    assert await can_dial(one)
    assert {listener.sandbox for listener in door.listeners} == {"box"}


@pytest.mark.parametrize(
    ("more", "password", "how"),
    [({}, b"", "owner-uid"), ({"network": True}, b"", "network"), ({"network": True}, b"x" * 32, "password")],
)
async def test_who_is_served_follows_from_the_settings(
    door: Door, more: dict[str, object], password: bytes, how: str
) -> None:
    await Listening(door, values("127.0.0.1:0", **more), password).open()
    (listener,) = door.listeners
    assert (listener.authentication, listener.password) == (how, password)


async def test_what_was_taken_away_comes_back_at_the_same_port(door: Door) -> None:
    listening = Listening(door, values("127.0.0.1:0"), b"")
    await listening.open()
    (at,) = listening.addresses["box"]
    await listening.shut("box")
    assert listening.addresses == {}
    assert not await can_dial(at)
    await listening.reopen("box")
    assert listening.addresses == {"box": (at,)}
    assert await can_dial(at)
    await listening.reopen("box")
    assert len(door.listeners) == 1, "it is opened once"


async def test_where_one_cannot_be_opened_none_is(door: Door) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        listening = Listening(door, values("127.0.0.1:0", f"127.0.0.1:{port}"), b"")
        with pytest.raises(UnreadableError, match=f"127.0.0.1:{port}") as caught:
            await listening.open()
    assert "--listen" in caught.value.hint
    assert door.listeners == []
    assert listening.addresses == {}
