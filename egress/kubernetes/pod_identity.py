"""Whose a connection is: the pod behind an address, its sandbox, and its claim."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class IdentityState(StrEnum):
    """How far the life of a sandbox has come."""

    POOLED = "pooled"
    """Nobody has claimed it, so it may do nothing."""
    CLAIMED = "claimed"
    ENDING = "ending"
    """Pod, sandbox or claim is being deleted; the claim holds until one of them is gone."""


class IdentityFault(StrEnum):
    """Why an address has no identity. Every fault denies."""

    STALE = "identity.stale"
    """A collection was not listed yet, or its watch is lost."""
    UNKNOWN = "identity.unknown"
    """No live pod has this address."""
    AMBIGUOUS = "identity.ambiguous"
    """Two live pods have this address, or two sandboxes one claim."""
    HOST_NETWORK = "identity.host-network"
    """The address is that of a pod in the network of its node."""
    NAT = "identity.nat"
    """The address is that of a node, or another one behind which any pod may be."""
    UNOWNED = "identity.unowned"
    """The pod belongs to no sandbox of agent-sandbox."""
    UNCLAIMED = "identity.unclaimed"
    """The sandbox belongs to neither a pool nor a claim."""
    PENDING = "identity.pending"
    """Sandbox and claim do not both say yet that they belong together, or one of them is gone."""


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """The sandbox behind an address."""

    namespace: str
    pod: str
    pod_uid: str
    sandbox: str
    sandbox_uid: str
    state: IdentityState
    claim: str = ""
    """Empty as long as the sandbox is in its pool."""
    claim_uid: str = ""
    profile: str = ""
    """The profile that the claim asks for."""

    @property
    def rights(self) -> tuple[str, str, str, str]:
        """The facts on which rights depend: a sandbox that is ending keeps those it had."""
        return self.pod_uid, self.sandbox_uid, self.claim_uid, self.profile
