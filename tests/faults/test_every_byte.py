"""HTTP/1.1 with one thing wrong on the wire: at every byte of each head and handshake, on both sides.

Plain HTTP meets every fault at every byte. Under TLS it is cuts and changed bytes, since those say most; the
other faults meet a sample that is drawn anew for each of them, always the same. The gate takes every so many
bytes, from a first one that each fault, side and direction has for itself; the night takes all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from tests.conftest import IS_NIGHTLY
from tests.faults.faulty_link import LOSSLESS, Direction, FaultKind, LinkFault
from tests.faults.faulty_proxy import ClientAnswer, FaultyProxy, Talk
from tests.faults.seeded_random import SeededRandom

Side = Literal["near", "far"]

ENDS = (FaultKind.RESET, FaultKind.CUT, FaultKind.HALF_CLOSE)
THOROUGH = (FaultKind.CUT, FaultKind.CORRUPT)
STRIDE = 1 if IS_NIGHTLY else 3
"""Bytes from one place to the next in clear."""
TLS_STRIDE = 1 if IS_NIGHTLY else 12
"""The same under TLS, where most bytes are noise."""
SAMPLE = 30 if IS_NIGHTLY else 12
SAMPLED = tuple(each for each in FaultKind if each not in (*THOROUGH, FaultKind.STALL))

both_sides = pytest.mark.parametrize("side", ["near", "far"])
both_ways = pytest.mark.parametrize("towards", ["up", "down"])


async def at(course: FaultyProxy, talk: Talk, side: Side, fault: LinkFault) -> ClientAnswer:
    near, far = (fault, None) if side == "near" else (None, fault)
    return await course.play(talk, near, far)


async def length(course: FaultyProxy, talk: Talk, side: Side, towards: Direction) -> int:
    """How many bytes go that way when nothing is wrong."""
    await course.play(talk)
    link = course.near if side == "near" else course.far
    assert link.last is not None
    return link.last.passed[towards]


def some_of(whole: int, stride: int, *about: str) -> range:
    """Places from the start to behind the last byte."""
    return range(SeededRandom(*about).randrange(stride), whole + 1, stride)


def judge_end(heard: ClientAnswer, course: FaultyProxy, side: Side, towards: Direction, place: int) -> None:
    """After a connection that ends it is known what may be said."""
    codes = {each.code for each in course.told}
    about = f"{side} {towards} {place}: {heard}, {course.told}"
    if side == "far":
        assert codes <= {"upstream.closed", "upstream.tls", "rule.allowed"}, about
    elif towards == "up" and place:
        expected = {"request.malformed", "protocol.refused", "tls.failed", "client.left", "rule.allowed"}
        assert codes <= expected, about
        assert codes or heard.failure, about


@both_ways
@both_sides
@pytest.mark.parametrize("what", [each for each in FaultKind if each is not FaultKind.STALL])
async def test_in_clear_at_every_byte(
    tmp_path: Path, what: FaultKind, side: Side, towards: Direction
) -> None:
    async with FaultyProxy.of(tmp_path, tls=False) as course:
        talk = course.in_clear
        places = some_of(await length(course, talk, side, towards), STRIDE, what, side, towards)
        for place in places:
            heard = await at(course, talk, side, LinkFault(what, towards, place))
            if what in ENDS:
                judge_end(heard, course, side, towards, place)
        link = course.near if side == "near" else course.far
        # Behind the last byte there is nothing to change.
        assert link.hits >= len(places) - 1, "the fault came about"
        await course.play(talk)


@both_ways
@both_sides
@pytest.mark.parametrize("what", THOROUGH)
async def test_under_tls_at_every_byte(
    tmp_path: Path, what: FaultKind, side: Side, towards: Direction
) -> None:
    """The tunnel, the handshake, and the request and its answer in it."""
    async with FaultyProxy.of(tmp_path, tls=True) as course:
        # A fault behind the proxy leaves the client's connection alone.
        talk = course.over_tls if side == "near" else course.steadily
        places = some_of(await length(course, talk, side, towards), TLS_STRIDE, what, side, towards)
        for place in places:
            heard = await at(course, talk, side, LinkFault(what, towards, place))
            if what in ENDS:
                judge_end(heard, course, side, towards, place)
        link = course.near if side == "near" else course.far
        # How long a handshake is differs by a few bytes, and in the end there may be nothing to change.
        assert link.hits >= len(places) - 16 // TLS_STRIDE, "the fault came about"
        await course.play(talk)


@both_ways
@both_sides
@pytest.mark.parametrize("what", SAMPLED)
async def test_under_tls_at_a_sample_of_bytes(
    tmp_path: Path, what: FaultKind, side: Side, towards: Direction
) -> None:
    async with FaultyProxy.of(tmp_path, tls=True) as course:
        talk = course.over_tls
        whole = await length(course, talk, side, towards)
        for place in SeededRandom(what, side, towards).places(
            whole, min(SAMPLE, 12) if what in LOSSLESS else SAMPLE
        ):
            heard = await at(course, talk, side, LinkFault(what, towards, place))
            if what in ENDS:
                judge_end(heard, course, side, towards, place)
        await course.play(talk)
