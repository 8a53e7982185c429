"""A ring keeps the newest bytes by their offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from egress.runtime.byte_ring import ByteRing

SIZES = some.integers(min_value=0, max_value=50)


@given(some.lists(some.binary(max_size=20)), SIZES, SIZES, some.none() | SIZES)
def test_bytes_are_read_by_their_offsets(
    pieces: list[bytes], max_bytes: int, offset: int, most: int | None
) -> None:
    ring = ByteRing(max_bytes)
    for piece in pieces:
        ring.add(piece)
    whole = b"".join(pieces)
    assert ring.end == len(whole)
    assert ring.first == max(0, len(whole) - max_bytes)
    at, data = ring.read(offset, most)
    assert at == max(offset, ring.first)
    assert data == whole[at:][: len(whole) if most is None else most]
