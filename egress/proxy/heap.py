"""Memory that was freed, given back to the system.

OpenSSL and the parsers take pieces of every size for each connection, and free them. The C library keeps what
lies between pieces that are still in use, so a process that serves many connections grows for a long time,
though it uses no more than before. glibc can be asked for it; other libraries give it back by themselves.
"""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Return whole pages in which nothing is; takes about a millisecond for 50 MB."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))
