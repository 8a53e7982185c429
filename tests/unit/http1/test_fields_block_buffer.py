"""A block is found however it comes in, and refused as early as it can be."""

from __future__ import annotations

import pytest

from egress.errors import WireError
from egress.http1.fields import BlockBuffer

BLOCK = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def test_returns_the_block_and_what_follows() -> None:
    assert BlockBuffer(100).take(BLOCK + b"rest") == (BLOCK, b"rest")


@pytest.mark.parametrize("cut", range(1, len(BLOCK)))
def test_finds_the_end_across_every_cut(cut: int) -> None:
    intake = BlockBuffer(100)
    started = [intake.started]
    assert intake.take(BLOCK[:cut]) is None
    started.append(intake.started)
    assert intake.take(BLOCK[cut:] + b"rest") == (BLOCK, b"rest")
    assert [*started, intake.started] == [False, True, False]


def test_can_be_used_again() -> None:
    intake = BlockBuffer(100)
    for _ in range(2):
        assert intake.take(BLOCK[:5]) is None
        assert intake.take(BLOCK[5:]) == (BLOCK, b"")


def test_the_limit_is_inclusive() -> None:
    assert BlockBuffer(len(BLOCK)).take(BLOCK) == (BLOCK, b"")
    with pytest.raises(WireError) as refusal:
        BlockBuffer(len(BLOCK) - 1).take(BLOCK)
    assert refusal.value.status == 431


def test_a_first_line_without_end_is_a_long_target() -> None:
    with pytest.raises(WireError) as refusal:
        BlockBuffer(50, of_request=True).take(b"GET /" + b"a" * 60)
    assert refusal.value.status == 414


def test_fields_without_end_are_no_long_target() -> None:
    with pytest.raises(WireError) as refusal:
        BlockBuffer(50, of_request=True).take(b"GET / HTTP/1.1\r\nA: " + b"a" * 60)
    assert refusal.value.status == 431


def test_a_block_that_has_reached_the_limit_is_not_waited_for() -> None:
    assert BlockBuffer(50).take(b"a" * 49) is None
    with pytest.raises(WireError):
        BlockBuffer(50).take(b"a" * 50)


def test_a_long_status_line_has_no_target() -> None:
    with pytest.raises(WireError) as refusal:
        BlockBuffer(50).take(b"HTTP/1.1 200 " + b"a" * 60)
    assert refusal.value.status == 431


@pytest.mark.parametrize("early", [b"GET / HTTP/1.1\n", b"GET\x00", b"\x16\x03\x01", b"a\rb", b"\r\n", b"\n"])
def test_refuses_stray_bytes_before_the_block_is_complete(early: bytes) -> None:
    with pytest.raises(WireError):
        BlockBuffer(100).take(early)
    intake = BlockBuffer(100)
    with pytest.raises(WireError):
        [intake.take(early[at : at + 1]) for at in range(len(early))]


def test_bytes_behind_the_block_are_not_judged() -> None:
    assert BlockBuffer(100).take(BLOCK + b"\x00\n\r") == (BLOCK, b"\x00\n\r")


def test_a_large_head_may_come_byte_by_byte() -> None:
    """Searching from the start each time would take a minute here."""
    block = b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 10_000 + b"\r\n"
    intake = BlockBuffer(1 << 20)
    found = [intake.take(block[at : at + 1]) for at in range(len(block))]
    assert found[-1] == (block, b"")
    assert not any(found[:-1])
