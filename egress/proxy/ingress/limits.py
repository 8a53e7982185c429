"""How much, and for how long, the door bears with a client before its connection belongs to a lane.

The defaults are several times what honest clients need. Tests pass smaller ones; nothing reads them
from anywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IngressLimits:
    """Bounds on one door. Times are in seconds."""

    head: int = 64 * 1024
    """Bytes of a request head."""
    first_byte: float = 30.0
    """Until the first byte arrives, and again until the first byte inside a tunnel does."""
    head_time: float = 15.0
    """From the first byte of a request head to its last."""
    hello_time: float = 10.0
    """From the first byte of a ClientHello to its last."""
    close_time: float = 30.0
    """How long what was written may take to leave, after the end of it all."""
    linger: int = 64 * 1024
    """Bytes that are thrown away behind a refusal, so that the client gets to read it."""
    linger_time: float = 1.0
    """How long a refused client may take to read the answer and close."""
    accept_pause: float = 1.0
    """How long nothing is accepted after the system ran out of descriptors or memory."""
    wrong_passwords: int = 10
    """Wrong passwords in a row that a listener looks at."""
    wrong_password_time: float = 1.0
    """Until it looks at one more after that."""
