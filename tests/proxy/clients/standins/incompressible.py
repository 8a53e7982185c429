"""What makes a package large: bytes that nothing compresses, no part of which is like another."""

from __future__ import annotations

import functools
import hashlib

from tests.proxy.clients.proofs import LARGE


@functools.cache
def ballast() -> bytes:
    """As much as a large body is, the same each time."""
    return hashlib.shake_128(b"ballast").digest(LARGE)


def is_whole(content: bytes) -> bool:
    """Whether this is the ballast; a test that compared it itself would print all of it."""
    return content == ballast()
