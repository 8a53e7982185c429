"""Connections on which nothing comes any more, after any number of bytes, many at a time.

Nobody is told that it has stopped: time alone ends them. It does not pass by itself here, a test lets it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.faulty_link import Direction, FaultKind, LinkFault
from tests.faults.faulty_proxy import LONG_TIMEOUT, MAX_SKIPS, WHOLE, FaultyProxy, heard_by
from tests.faults.seeded_random import SeededRandom

AT_ONCE = 100
TURNS = 50
"""Of the loop, between two leaps of the clock."""
EXPECTED = {
    # What was said to the client has left; that it did not arrive, nobody knows.
    "near": {"request.timeout", "upstream.timeout", "client.left", "rule.allowed"},
    "far": {"upstream.timeout", "rule.allowed"},
}


@pytest.mark.parametrize("towards", ["up", "down"])
@pytest.mark.parametrize("side", ["near", "far"])
@pytest.mark.parametrize("tls", [False, True], ids=["clear", "tls"])
async def test_each_ends_with_one_record(tmp_path: Path, tls: bool, side: str, towards: Direction) -> None:
    async with FaultyProxy.of(tmp_path, tls=tls) as course:
        talk = course.over_tls if tls else course.in_clear
        link = course.near if side == "near" else course.far
        await course.play(talk)
        assert link.last is not None
        length = link.last.passed[towards]
        # How long a handshake is differs by a few bytes: all of these are reached.
        places = SeededRandom(side, towards).places(length - 16, AT_ONCE) if tls else range(length + 1)
        course.told.clear()
        link.faults.extend(LinkFault(FaultKind.STALL, towards, place) for place in places)

        async with asyncio.TaskGroup() as group:
            talks = [group.create_task(heard_by(talk)) for _ in places]
            while link.hits < len(places):  # noqa: ASYNC110 - a link tells nobody
                await asyncio.sleep(0.01)
            quiet = group.create_task(course.is_quiet())
            for _ in range(MAX_SKIPS):
                # Again and again: some have only just begun to wait.
                course.clock.skip(LONG_TIMEOUT)
                for _ in range(TURNS):
                    await asyncio.sleep(0)
            assert quiet.done(), "some never end"
            await course.near.clear()
        course.check(f"{course.told}")
        assert len(course.told) == len(places)
        assert {each.code for each in course.told} <= EXPECTED[side]
        for heard in (each.result() for each in talks):
            if side == "far" and heard.status != 200:
                assert (heard.status, heard.code) == (504, "upstream.timeout")
        await course.far.clear()
        assert await course.play(talk) == WHOLE
