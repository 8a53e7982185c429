"""The trace that a request belongs to, as its sandbox says (W3C Trace Context, version 00). Pure.

The fields `traceparent` and `tracestate` travel on unchanged: the upstream is not ours, and learns of no span
of ours. Only the two ids are read, so nothing else that a sandbox writes there gets into a record. What is
not exactly as the standard writes it is no trace.
"""

from __future__ import annotations

import re
from typing import Final

from egress.types import Headers, value_class

TRACE_PARENT_FIELD: Final = "traceparent"
# Hexadecimal digits in lower case only, as the standard has them. An id of zeros is none.
_PATTERN = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}", re.ASCII)


@value_class
class TraceParent:
    """The span of the sandbox that a request came from."""

    trace_id: int
    """16 bytes, not zero."""
    span_id: int
    """8 bytes, not zero."""


def read_trace_parent(headers: Headers) -> TraceParent | None:
    """Return the trace of a request; None without a field that names one, or with several fields."""
    found = [value for name, value in headers if name == TRACE_PARENT_FIELD]
    match = _PATTERN.fullmatch(found[0]) if len(found) == 1 else None
    return None if match is None else TraceParent(int(match[1], 16), int(match[2], 16))
