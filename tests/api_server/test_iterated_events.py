"""An iterator that blocks becomes events, and ends with its client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

from egress.api_server.call import ApiContext
from egress.api_server.iterated_events import iterated_events
from egress.errors import UsageError
from tests.fleet.memory_fleet import MemoryFleet


def _context() -> ApiContext:
    return ApiContext(MemoryFleet().fleet, lambda: None, is_owner_only=True)


def _encoded(item: int) -> bytes:
    return b"event: item\ndata: %d\n\n" % item


def test_items_come_in_order_and_an_error_is_the_last_event() -> None:
    def items() -> Iterator[int]:
        yield from (1, 2)
        raise UsageError("no more")

    async def read() -> list[bytes]:
        closed: list[bool] = []
        found = iterated_events(_context(), "counting", items(), _encoded, lambda: closed.append(True))
        pieces = [piece async for piece in found]
        assert closed == [True]
        return pieces

    pieces = asyncio.run(read())
    assert pieces[:3] == [b": counting\n\n", _encoded(1), _encoded(2)]
    assert pieces[3].startswith(b"event: problem\n")
    assert len(pieces) == 4


def test_a_client_that_leaves_ends_the_iterator_that_waits() -> None:
    stopping, ended = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield 1
        stopping.wait(30)
        ended.set()

    async def read() -> None:
        found = iterated_events(_context(), "waiting", items(), _encoded, stopping.set)
        assert [await anext(found), await anext(found)] == [b": waiting\n\n", _encoded(1)]
        waiting = asyncio.ensure_future(anext(found))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait({waiting})

    asyncio.run(read())
    assert ended.wait(30)
