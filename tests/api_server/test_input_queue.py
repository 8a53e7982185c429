"""Input that waits is bounded, and goes on in its order."""

from __future__ import annotations

import pytest

from egress.api_server.call import UnfitRequestError
from egress.api_server.input_queue import MAX_WAITING_INPUT, InputQueue


async def test_input_goes_on_in_its_order_and_is_acknowledged() -> None:
    queue = InputQueue()
    done: list[bytes | str] = []
    for each in (b"one", b"two", None):
        queue.add(each)

    async def write(data: bytes) -> None:
        done.append(data)

    async def taken() -> None:
        done.append("taken")

    await queue.feed(write, taken)
    assert done == [b"one", "taken", b"two", "taken"]


async def test_too_much_input_is_refused() -> None:
    queue = InputQueue()
    for _ in range(MAX_WAITING_INPUT):
        queue.add(b"x")
    with pytest.raises(UnfitRequestError):
        queue.add(b"x")
