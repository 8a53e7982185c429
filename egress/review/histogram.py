"""How durations are spread, in little room: the count of each of some hundred classes.

A class spans an eighth of a power of two, so a percentile read from it is off by at most 6 %. Pure.
Packed, it is a row of pairs: the class in two bytes, the count in six.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

Counts = dict[int, int]
_PAIR = struct.Struct("<HIH")
"""Class, and the low and the high part of the count."""
_EXACT = 16
"""Below, each number is a class of its own."""


def class_of(value: int) -> int:
    """The class of a number."""
    if value < _EXACT:
        # Zero and a few microseconds are exact: the classes there would be narrower than one.
        return max(value, 0)
    power = value.bit_length()
    # The top bit gives the power, the next three bits give the eighth.
    return (power << 3) | (value >> (power - 4) & 7)


def middle_of(number: int) -> int:
    """The number that stands for a class: the middle of it."""
    if number < _EXACT:
        return number
    power, eighth = number >> 3, number & 7
    width = 1 << (power - 4)
    return (8 + eighth) * width + width // 2


def packed(counts: Mapping[int, int]) -> bytes:
    """Counts as bytes."""
    pack = _PAIR.pack
    return b"".join(
        [
            # The count has six bytes and is capped rather than raising: it comes from a log, which may be
            # forged.
            pack(number, count & 0xFFFFFFFF, min(count >> 32, 0xFFFF))
            for number, count in sorted(counts.items())
            if count > 0
        ]
    )


def add(counts: Counts, data: bytes) -> None:
    """Add packed counts to others; what is not whole at the end is left out."""
    whole = len(data) - len(data) % _PAIR.size
    # Negative counts appear only in memory, when a file is taken out.
    for number, low, high in _PAIR.iter_unpack(memoryview(data)[:whole]):
        counts[number] = counts.get(number, 0) + low + (high << 32)


def merged(parts: Iterable[bytes]) -> Counts:
    """Packed counts, added up."""
    counts: Counts = {}
    for part in parts:
        add(counts, part)
    return counts


def negated(data: bytes) -> Counts:
    """Packed counts, to be taken away from others."""
    return {number: -count for number, count in merged([data]).items()}


def percentile(counts: Mapping[int, int], share: float) -> int:
    """The number below which this share lies; 0 when there is none."""
    wanted = share * sum(counts.values())
    seen = 0
    for number, count in sorted(counts.items()):
        seen += count
        if seen >= wanted:
            return middle_of(number)
    return 0
