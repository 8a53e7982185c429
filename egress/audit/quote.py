"""Text from anywhere as a JSON string: ASCII alone, no control characters, of bounded length.

What comes from a sandbox may hold any byte. A line of the audit is read by people in terminals and by
programs that split at line ends, so everything that is not plain ASCII is escaped.
"""

from __future__ import annotations

from functools import lru_cache
from json.encoder import encode_basestring_ascii as _encode

MOST_NAME = 256
"""A host name has at most 253 characters; our own names have fewer."""
MOST_PATH = 4096
CUT = "\N{HORIZONTAL ELLIPSIS}"
"""Stands at the end of a text that was cut."""


def quoted(text: str, most: int) -> str:
    """`text` as a JSON string with its quotes; of a longer one the first `most` characters and a mark."""
    return _encode(text if len(text) <= most else text[:most] + CUT)


@lru_cache(4096)
def name(text: str) -> str:
    """The same for texts that come back in line after line: hosts, sandboxes, codes, rules."""
    return quoted(text, MOST_NAME)


@lru_cache(4096)
def optional(text: str | None) -> str:
    """The same, with `null` for nothing."""
    return quoted(text, MOST_NAME) if text else "null"
