"""Whose a connection is where several sandboxes share a listener: the address of the peer tells.

Without such a table the listener tells, as it does everywhere outside of a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from egress.types import Identity


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """The sandbox behind a peer, and whether it has any rights."""

    identity: Identity
    code: str = ""
    """Why it has none; empty if it has."""

    @property
    def pod_uid(self) -> str:
        """The pod behind the peer; empty if none is known."""
        return self.identity.workload.pod_uid if self.identity.workload else ""


class PeerIdentities(Protocol):
    """The table of peers."""

    def identify(self, peer: str) -> PeerIdentity:
        """Return whose a connection from this address is that is accepted now."""
        ...

    def gate_code(self, peer: str, uid: str) -> str:
        """Return why this peer is not the pod of this UID; empty if it is."""
        ...

    async def ask_again(self, peer: str) -> PeerIdentity:
        """Return the same for a peer that was not known, after the cluster was asked about it."""
        ...
