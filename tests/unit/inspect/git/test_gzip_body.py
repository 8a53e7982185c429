"""One gzip member in any pieces; more than one, and what inflates without end, is refused."""

from __future__ import annotations

import gzip
import hashlib

import pytest

from egress.errors import WireError
from egress.inspect.git.gzip_body import FREE_PLAIN_BYTES, MAX_PLAIN_GROWTH, GzipBody

NOISE = hashlib.shake_128(b"pack").digest(400_000)


def read(data: bytes, step: int = 0) -> bytes:
    body = GzipBody()
    found = b"".join(
        body.feed(data[at : at + (step or len(data))]) for at in range(0, len(data), step or len(data))
    )
    body.end()
    return found


@pytest.mark.parametrize("step", [0, 1, 1000])
@pytest.mark.parametrize("plain", [b"", b"0000", b"x" * FREE_PLAIN_BYTES, NOISE[:3000]])
def test_a_body_is_read_in_any_pieces(plain: bytes, step: int) -> None:
    assert read(gzip.compress(plain), step) == plain


@pytest.mark.parametrize("size", [64 * 1024 * each + more for each in (1, 2) for more in (-1, 0, 1)])
def test_nothing_stays_behind_in_the_decoder(size: int) -> None:
    assert read(gzip.compress(b"ab" * (size // 2))) == b"ab" * (size // 2)


def test_a_body_that_hardly_shrinks_may_be_of_any_length() -> None:
    assert read(gzip.compress(NOISE), 7000) == NOISE


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"0000", "not compressed"),
        (gzip.compress(b"0000")[:-1], "cut short"),
        (b"", "cut short"),
        (gzip.compress(b"00") + gzip.compress(b"00"), "Bytes follow"),
        (gzip.compress(b"0000") + b"\0", "Bytes follow"),
        (gzip.compress(b"0000")[:-8] + bytes(8), "not compressed"),
    ],
)
def test_anything_else_is_refused(data: bytes, said: str, step: int) -> None:
    with pytest.raises(WireError, match=said):
        read(data, step if data else 1)


def test_what_inflates_is_in_proportion_to_what_came() -> None:
    bomb = gzip.compress(bytes(FREE_PLAIN_BYTES * 100))
    body = GzipBody()
    with pytest.raises(WireError, match="inflates too much"):
        body.feed(bomb)
    assert body._made <= FREE_PLAIN_BYTES + MAX_PLAIN_GROWTH * len(bomb) + 64 * 1024
