"""The `Range` header of a request for a file: one range of bytes, as RFC 9110 writes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from egress.errors import EgressError

_RANGE_PATTERN: Final = re.compile(r"([0-9]{0,19})-([0-9]{0,19})")
_BYTES_UNIT: Final = "bytes"


class UnfitRangeError(EgressError):
    """The range is not in the file, or is not one range."""

    code = "range.unsatisfiable"


def choose_part(headers: Sequence[str], size: int) -> tuple[int, int] | None:
    """Return the offset and the count of the bytes that `Range` headers ask for, or None for the whole file.

    A unit other than bytes is ignored, as the RFC demands. Raises `UnfitRangeError`.
    """
    if not headers:
        return None
    unit, _, text = headers[0].partition("=")
    if len(headers) == 1 and unit.lower() != _BYTES_UNIT:
        return None
    found = _RANGE_PATTERN.fullmatch(text) if len(headers) == 1 else None
    if found is None or text == "-":
        raise UnfitRangeError("the range is not one range of bytes", "write it as bytes=0-499 or bytes=-500")
    first_text, last_text = found.groups()
    if first_text:
        first = int(first_text)
        last = min(int(last_text), size - 1) if last_text else size - 1
    else:
        # A number without a first byte counts from the end.
        first, last = max(0, size - int(last_text)), size - 1
    if first > last:
        raise UnfitRangeError(f"the range is not in the file of {size} bytes", "ask for a part of it")
    return first, last - first + 1
