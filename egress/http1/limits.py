"""How much a peer may make us hold before a message is refused."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """Bounds on everything that is kept or looped over; bodies are streamed and need none.

    The defaults are several times what browsers, package managers and SDKs send, and close to what
    common servers accept.
    """

    head: int = 64 * 1024
    """Bytes of a head, from the first line through the empty line."""
    fields: int = 128
    """Header fields in one head."""
    target: int = 16 * 1024
    """Characters of a request target."""
    chunk_extension: int = 256
    """Bytes of extension behind one chunk size."""
    chunk_extensions: int = 16 * 1024
    """Bytes of extension in one body, over and above one for every byte of data."""
    trailers: int = 8 * 1024
    """Bytes of a trailer section."""
    trailer_fields: int = 32
    """Fields in a trailer section."""
    informational: int = 16
    """Interim (1xx) responses before the final one."""
    pending: int = 256 * 1024
    """Bytes taken in after a message is complete, while the next may not be read yet."""
