"""Write a credential as the one value of a header.

Many servers (CGI, WSGI and what follows them) read `X_Api_Key` and `X-Api-Key` as one name, and so
a sandbox could put its own value beside ours. Names that are `alike` are one slot here.
"""

from __future__ import annotations

from egress import name_folding
from egress.credentials.result import CredentialRefusal, HeadEdit
from egress.credentials.secret_value import is_header_line
from egress.types import Headers, InjectHeader, Slot

# The codec frames and routes by these; a credential there would change what the request is.
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
            "internal", "A credential cannot stand in a header that frames or routes the request."
        )
    line = need.prefix + value.decode("latin-1") + need.suffix
    if not is_header_line(line):
        return unfit_for_header(need.secret, Slot("header", name))
    kept = without_header(headers, name)
    return HeadEdit(target, (*kept, (name, line)), len(kept) != len(headers))


def without_header(headers: Headers, name: str) -> Headers:
    """Drop every header that a server may read as `name`."""
    folded = name_folding.fold_header(name)
    kept = tuple([field for field in headers if field[0] != folded])
    # Names are in lower case already, and hardly one has a mark.
    if name_folding.NAME_MARK.search("".join([field[0] for field in kept])) is None:
        return kept
    return tuple([field for field in kept if name_folding.fold_header(field[0]) != folded])


def unfit_for_header(secret: str, slot: Slot) -> CredentialRefusal:
    """Refuse a value that a header line cannot carry."""
    why = "The value has bytes that a header cannot carry without doubt: only visible ASCII is sent there."
    return CredentialRefusal("secret.unavailable", why, secret, slot)
