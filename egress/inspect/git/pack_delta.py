"""Deltas of a pack: an object written as copies out of another one and bytes of its own."""

from __future__ import annotations

from typing import Final

_MAX_SIZE_BITS: Final = 32
_WHOLE_COPY: Final = 0x10000
"""Bytes of a copy that names no size."""


class DeltaError(ValueError):
    """The delta is malformed."""


def apply_delta(base: bytes, delta: bytes, max_bytes: int) -> bytes:
    """Return the object of a delta, of at most `max_bytes`; raises DeltaError.

    Each step takes a byte of the delta or more, so the work is bounded by the length of the delta.
    """
    base_size, at = _size(delta, 0)
    size, at = _size(delta, at)
    if base_size != len(base) or size > max_bytes:
        raise DeltaError
    made = bytearray()
    while at < len(delta):
        command = delta[at]
        at += 1
        if command & 0x80:
            start, at = _number(delta, at, command, 4)
            count, at = _number(delta, at, command >> 4, 3)
            count = count or _WHOLE_COPY
            if start + count > len(base):
                raise DeltaError
            made += base[start : start + count]
        else:
            if not command or at + command > len(delta):
                raise DeltaError
            made += delta[at : at + command]
            at += command
        if len(made) > size:
            raise DeltaError
    if len(made) != size:
        raise DeltaError
    return bytes(made)


def _size(delta: bytes, at: int) -> tuple[int, int]:
    """Read a size: seven bits in each byte, the lowest first."""
    size = shift = 0
    while at < len(delta) and shift < _MAX_SIZE_BITS:
        byte = delta[at]
        at += 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return size, at
    raise DeltaError


def _number(delta: bytes, at: int, present: int, count: int) -> tuple[int, int]:
    """Read a number of which only some bytes are written: one bit of `present` for each."""
    number = 0
    for place in range(count):
        if present & (1 << place):
            if at >= len(delta):
                raise DeltaError
            number |= delta[at] << (8 * place)
            at += 1
    return number, at
