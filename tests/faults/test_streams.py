"""HTTP/2 and WebSocket with one thing wrong on the wire, at a sample of bytes that is always the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.faulty_link import Direction, FaultKind
from tests.faults.faulty_proxy import FaultyProxy
from tests.faults.seeded_random import SeededRandom
from tests.faults.stream_clients import Messages, Streams, play_sample

BREAK_RECORDS = {FaultKind.CORRUPT, FaultKind.DUPLICATE, FaultKind.HALF_CLOSE}
"""Under TLS these leave a record that cannot be read: see `test_broken_records`."""
both_sides = pytest.mark.parametrize("side", ["near", "far"])
both_ways = pytest.mark.parametrize("towards", ["up", "down"])


@both_ways
@both_sides
@pytest.mark.parametrize(
    "what", [each for each in FaultKind if each not in {FaultKind.STALL, *BREAK_RECORDS}]
)
async def test_http2(tmp_path: Path, what: FaultKind, side: str, towards: Direction) -> None:
    async with FaultyProxy.of(tmp_path, tls=True, http2=True) as course:
        await play_sample(
            course, Streams(course), SeededRandom("h2", what, side, towards), what, side, towards
        )


@both_ways
@both_sides
@pytest.mark.parametrize(
    "what", [each for each in FaultKind if each not in {FaultKind.STALL, *BREAK_RECORDS}]
)
async def test_websocket_under_tls(tmp_path: Path, what: FaultKind, side: str, towards: Direction) -> None:
    async with FaultyProxy.of(tmp_path, tls=True) as course:
        messages = Messages(course, tls=True)
        await play_sample(course, messages, SeededRandom("ws", what, side, towards), what, side, towards)


@both_ways
@both_sides
@pytest.mark.parametrize("what", [each for each in FaultKind if each is not FaultKind.STALL])
async def test_websocket_in_clear(tmp_path: Path, what: FaultKind, side: str, towards: Direction) -> None:
    """Inside of a CONNECT, so that frames themselves are changed and doubled."""
    async with FaultyProxy.of(tmp_path, tls=False) as course:
        messages = Messages(course, tls=False)
        await play_sample(course, messages, SeededRandom("clear", what, side, towards), what, side, towards)
