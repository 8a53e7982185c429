"""The one reading of a destination that a client writes: `host:port` to a canonical pair, or nothing.

Host names go through the one canonical spelling that rules are compared with; addresses are taken in
their canonical spelling alone; ports are plain decimal numbers. What has no such reading is refused
and never repaired: the next program in the chain might repair it differently.
"""

from __future__ import annotations

import re
from typing import Final

from egress.rules.hosts import HostError, canonical_wire, is_address

_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_LONGEST_EXCERPT: Final = 120


def read_authority(text: str, default_port: int = 0) -> tuple[str, int] | None:
    """Read `host`, `host:port`, `1.2.3.4:port` or `[v6]:port`; None for what is none of them.

    Without a port the default is taken; where that is 0 the port must stand there.
    """
    if text.startswith("["):
        inner, bracket, rest = text[1:].partition("]")
        if not bracket or ":" not in inner or not is_address(inner):
            return None
        host: str | None = inner
    else:
        name, colon, port_text = text.partition(":")
        host, rest = _read_name(name), colon + port_text
    port = _read_port(rest, default_port)
    return (host, port) if host and port else None


def _read_name(text: str) -> str | None:
    if ":" not in text and is_address(text):
        return text
    try:
        return canonical_wire(text)
    except HostError:
        return None


def _read_port(text: str, default: int) -> int:
    """The port behind its colon, or the default where nothing stands there; 0 for what is no port."""
    if not text:
        return default
    if text[0] != ":" or _PORT.fullmatch(text, 1) is None:
        return 0
    port = int(text[1:])
    return port if port <= 65535 else 0


def excerpt(text: str) -> str:
    """The start of a text from the wire, safe to be shown: plain ASCII without control characters."""
    shown = "".join(
        letter if " " <= letter <= "~" else f"\\x{ord(letter):02x}" for letter in text[:_LONGEST_EXCERPT]
    )
    return shown[:_LONGEST_EXCERPT] + ("..." if len(text) > _LONGEST_EXCERPT else "")
