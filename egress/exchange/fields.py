"""The fields of a head, checked once more whichever codec has read them.

HTTP/1.1 and HTTP/2 come from different parsers. What everything here relies on must not depend on
which of them ran: names are lower-case tokens, so that a comparison cannot be missed by spelling,
and no value can end its line.
"""

from __future__ import annotations

from egress.errors import WireError
from egress.http1.framing import read_length
from egress.http1.grammar import CANONICAL_BLOCK
from egress.types import Headers


def check_fields(headers: Headers) -> int | None:
    """Return what Content-Length states, or None.

    Raises WireError for a name or value that is none, a length that is no plain number, or two.
    """
    block = "".join([f"{name}: {value}\r\n" for name, value in headers]) + "\r\n"
    # As many lines as fields: a value may hold what reads as a well-formed line of its own.
    if CANONICAL_BLOCK.fullmatch(block) is None or block.count("\n") != len(headers) + 1:
        raise WireError("A header field has a name or a value that is none.")
    stated = [value for name, value in headers if name == "content-length"]
    if len(stated) > 1:
        raise WireError("Content-Length is repeated.")
    return read_length(stated[0]) if stated else None
