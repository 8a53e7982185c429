"""What a relay wants done on its connections. Values only.

A *wire* is a connection, by number: 0 is that of the client, every other one leads to the upstream.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from egress.rules.policy import Policy

CLIENT: Final = 0


class Write(NamedTuple):
    """Send these bytes."""

    wire: int
    data: bytes

    def __repr__(self) -> str:
        # What is sent upstream may hold a credential.
        return f"Write(wire={self.wire}, {len(self.data)} bytes)"


class Close(NamedTuple):
    """Send what is still waiting, then close."""

    wire: int


class Reset(NamedTuple):
    """Close at once, so that the peer cannot take what it got for the whole."""

    wire: int


class Open(NamedTuple):
    """Connect to the destination; answer with `opened` or `failed`."""

    wire: int
    alpn: tuple[str, ...]


class Fetch(NamedTuple):
    """Get the values of these secrets; answer with `fetched`."""

    ticket: int
    policy: Policy
    names: tuple[str, ...]
    unscrubbed: bool = False
    """A value too short to be searched for will do."""


class Again(NamedTuple):
    """Call `again` in a while, after others have had their turn."""


Order = Write | Close | Reset | Open | Fetch | Again
