"""Checks of the head of a request whose body is to be read: what would let two readers see two bodies."""

from __future__ import annotations

import re
from typing import Final

from egress.inspect.inspector import BodyKind, Unreadable
from egress.request_name_folding import fold_header
from egress.types import Head

_BARE_METHODS: Final = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})
"""Requests by these need no type: those that may have a body have none of these kinds."""
_CHARSET: Final = re.compile(r"charset=(\"?)([^\"]*)\1", re.IGNORECASE)


def head_refusal(kind: BodyKind, head: Head) -> Unreadable | None:
    """Return why the body behind this head is not read; None if it may be.

    A name that some server takes for the one that is read here counts like it.
    """
    found: dict[str, list[str]] = {"content-type": [], "content-encoding": []}
    for name, value in head.headers:
        if (folded := fold_header(name)) in found:
            found[folded].append(value)
    codings = kind.codings | {"identity"}
    if any(each.strip(" \t").lower() not in codings for each in found["content-encoding"]):
        return Unreadable("body.encoding", "the body is coded")
    types = found["content-type"]
    if not types and head.method in _BARE_METHODS:
        return None
    if len(types) != 1 or not _is_of_kind(kind, types[0]):
        return Unreadable("body.type", f"the type is not one of {', '.join(sorted(kind.media_types))}")
    return None


def _is_of_kind(kind: BodyKind, value: str) -> bool:
    media_type, *parameters = (part.strip(" \t") for part in value.split(";"))
    if media_type.lower() not in kind.media_types:
        return False
    # Another charset would be read as other text by a server that heeds it.
    charsets = [match for each in parameters if (match := _CHARSET.fullmatch(each)) is not None]
    named = [each for each in parameters if each.lower().startswith("charset")]
    return len(charsets) == len(named) <= 1 and all(match[2].lower() == "utf-8" for match in charsets)
