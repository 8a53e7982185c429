"""Fields behind a chunked body: read like a head, and kept away from everything a head decides.

A field that frames, routes, authenticates, sets cookies, or says how to read the content has no
business here. In a request it is refused: only an attempt to slip something past the decision on the
head puts it there. In a response it is dropped: the body has gone through already, and a sloppy
server should not break the download; nothing behind us gets to see it either way.
"""

from __future__ import annotations

from typing import Final

from egress.errors import WireError
from egress.http1.field_block import LOOKALIKE_FIELDS, read_fields
from egress.http1.hop_by_hop import HOP_BY_HOP_FIELDS
from egress.types import Headers

FORBIDDEN_FIELDS: Final = (
    HOP_BY_HOP_FIELDS
    | LOOKALIKE_FIELDS
    | {"content-length", "trailer", "host", "max-forwards", "cache-control", "pragma", "range", "location"}
    | {"if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range"}
    | {"authorization", "www-authenticate", "authentication-info", "cookie", "set-cookie", "set-cookie2"}
    | {"content-encoding", "content-type", "content-range", "content-location", "content-disposition"}
)


def is_forbidden(name: str) -> bool:
    """Tell whether a field of this (lower-case) name must not stand in a trailer."""
    return name in FORBIDDEN_FIELDS or name.startswith("proxy-")


def read_trailers(block: bytes, limit: int, *, of_request: bool) -> Headers:
    """Read a trailer section from `block`, which ends with its empty line."""
    headers, _ = read_fields(block.decode("latin-1"), 0, limit)
    kept = tuple([field for field in headers if not is_forbidden(field[0])])
    if of_request and len(kept) != len(headers):
        raise WireError("A trailer field is one that belongs into the head.", "Send it before the body.")
    return kept
