"""Records of TLS that cannot be read, on connections that carry several exchanges, or messages.

One connection breaks, and what it carried ends with a code that says so. Whatever else the same client has
under way goes on, or is answered: a broken record is the fault of the wire and never one of the proxy.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.faulty_link import Direction, FaultKind
from tests.faults.faulty_proxy import FaultyProxy
from tests.faults.seeded_random import SeededRandom
from tests.faults.stream_clients import Messages, Streams, play_sample

every_fault = pytest.mark.parametrize("what", [FaultKind.CORRUPT, FaultKind.DUPLICATE, FaultKind.HALF_CLOSE])
both_sides = pytest.mark.parametrize("side", ["near", "far"])
both_ways = pytest.mark.parametrize("towards", ["up", "down"])


@both_ways
@both_sides
@every_fault
async def test_http2(tmp_path: Path, what: FaultKind, side: str, towards: Direction) -> None:
    async with FaultyProxy.of(tmp_path, tls=True, http2=True) as course:
        await play_sample(
            course, Streams(course), SeededRandom("h2", what, side, towards), what, side, towards
        )


@both_ways
@both_sides
@every_fault
async def test_websocket(tmp_path: Path, what: FaultKind, side: str, towards: Direction) -> None:
    async with FaultyProxy.of(tmp_path, tls=True) as course:
        messages = Messages(course, tls=True)
        await play_sample(course, messages, SeededRandom("ws", what, side, towards), what, side, towards)
