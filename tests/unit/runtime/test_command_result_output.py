"""What is kept of a stream, and what is told of it."""

from __future__ import annotations

import pytest

from egress.runtime.command_result import CapturedStream


@pytest.mark.parametrize(
    ("most", "kept", "truncated"),
    [(0, b"", True), (3, b"abc", True), (6, b"abcdef", False), (9, b"abcdef", False)],
)
def test_the_beginning_is_kept_and_all_is_told(most: int, kept: bytes, truncated: bool) -> None:
    told: list[bytes] = []
    stream = CapturedStream(most, told.append)
    for piece in (b"ab", b"cd", b"ef"):
        stream.add(piece)
    assert (stream.data(), stream.truncated, told) == (kept, truncated, [b"ab", b"cd", b"ef"])


def test_nobody_has_to_be_told() -> None:
    stream = CapturedStream(1)
    stream.add(b"")
    assert (stream.data(), stream.truncated) == (b"", False)
