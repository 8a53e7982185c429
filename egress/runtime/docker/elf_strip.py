"""Cuts from programs and libraries the parts that no loader reads: debugging symbols, the table of sections.

A loader reads segments alone, and linkers put everything else behind the last one. Python's own libraries and
those of many wheels come with their debugging symbols, which make up three quarters of them.

Imports nothing of Egress: the recipe of the proxy image runs it by its path.
"""

from __future__ import annotations

import struct
from typing import Final

_MAGIC: Final = b"\x7fELF\x02\x01"
"""An ELF file of 64 bits, low byte first; all others stay as they are."""
_HEADER_SIZE: Final = 64
_NO_BITS: Final = 8
"""The type of a section without a place in the file."""


def without_symbols(data: bytes) -> bytes:
    """The part of a program or library that is loaded. Data that is no such file stays as it is."""
    if not data.startswith(_MAGIC) or len(data) < _HEADER_SIZE:
        return data
    try:
        return _cut(data)
    except (struct.error, OverflowError, ValueError):
        # The headers point past the end, or nowhere: it is no file that this can judge.
        return data


def _cut(data: bytes) -> bytes:
    segments, sections = struct.unpack_from("<QQ", data, 32)
    segment_size, segment_count, section_size, section_count = struct.unpack_from("<4H", data, 54)
    if not segment_count or not sections:
        return data
    end = segments + segment_size * segment_count
    for place in range(segments, end, segment_size):
        offset, size = _at(data, place + 8), _at(data, place + 32)
        end = max(end, offset + size)
    # Some programs carry data of their own behind everything that a linker wrote: they find it by its place.
    if len(data) > _written_end(data, sections, section_size, section_count):
        return data
    cut = bytearray(data[:end])
    struct.pack_into("<Q", cut, 40, 0)
    struct.pack_into("<3H", cut, 58, 0, 0, 0)
    return bytes(cut)


def _written_end(data: bytes, sections: int, section_size: int, section_count: int) -> int:
    """The end of all that the table of sections knows, itself included."""
    end = sections + section_size * section_count
    for place in range(sections, end, section_size):
        (kind,) = struct.unpack_from("<I", data, place + 4)
        if kind != _NO_BITS:
            end = max(end, _at(data, place + 24) + _at(data, place + 32))
    return end


def _at(data: bytes, place: int) -> int:
    (found,) = struct.unpack_from("<Q", data, place)
    return int(found)
