"""Addresses of resources: those that every server reads as they stand.

Patterns are compared with the text of an address. A server may take `..` and escapes in it for something
else, so an address with them fits no allow.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

_DOTS: Final = frozenset({".", ".."})


def is_plain_address(text: str) -> bool:
    """Tell whether no server can take the address for another one by its dots and escapes."""
    decoded = unquote(text)
    if "%" in decoded or "\\" in decoded or not decoded.isprintable():
        return False
    return decoded.count("/") == text.count("/") and _DOTS.isdisjoint(decoded.split("/"))
