"""Write a credential as the only value of a header.

Many servers (CGI, WSGI and their successors) read `X_Api_Key` and `X-Api-Key` as one name, so a sandbox could
put its own value beside ours. Names with the same folding are one slot here.
"""

from __future__ import annotations

from functools import lru_cache

from egress.credentials.result import CredentialRefusal, HeadEdit
from egress.request_name_folding import NAME_MARK, fold_header
from egress.types import Headers, InjectHeader, Slot

# The codec frames and routes by these headers; a credential there would change the request itself.
_FRAMING_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect"}
)


def write_header(
    target: str, headers: Headers, need: InjectHeader, value: bytes
) -> HeadEdit | CredentialRefusal:
    """Replace every spelling of the header by `prefix + value + suffix`."""
    name = need.name.lower()
    if name in _FRAMING_HEADERS:
        return CredentialRefusal(
            "internal", "A header that frames or routes the request cannot carry a credential."
        )
    line = need.prefix + value.decode("latin-1") + need.suffix
    if not is_header_line(line):
        return unfit_for_header(need.secret, Slot("header", name))
    kept = without_header(headers, name)
    return HeadEdit(target, (*kept, (name, line)), len(kept) != len(headers))


def is_header_line(line: str) -> bool:
    """Report whether a header can carry this line: visible ASCII, with spaces only inside."""
    return line.isascii() and line.isprintable() and line != "" and " " not in (line[0], line[-1])


def without_header(headers: Headers, name: str) -> Headers:
    """Drop every header that a server may read as `name`."""
    folded = _folded_slot(name)
    kept = tuple([field for field in headers if field[0] != folded])
    # Names are in lower case already, and few contain a mark.
    if NAME_MARK.search("".join([field[0] for field in kept])) is None:
        return kept
    return tuple([field for field in kept if fold_header(field[0]) != folded])


@lru_cache(maxsize=256)
def _folded_slot(name: str) -> str:
    # Of names in rules alone, which come again with each request: names in requests are not kept.
    return fold_header(name)


def unfit_for_header(secret: str, slot: Slot) -> CredentialRefusal:
    """Refuse a value that a header line cannot carry."""
    why = "The value has bytes that a header cannot carry safely: only visible ASCII is sent in headers."
    return CredentialRefusal("secret.unavailable", why, secret, slot)
