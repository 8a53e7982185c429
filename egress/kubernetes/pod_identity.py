"""Whose a connection is: the pod behind an address, its sandbox, and its claim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

ANNOTATION_PREFIX: Final = "egress/"
API_SERVER_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"
REPLICA_VARIABLE: Final = "HOSTNAME"
"""The name of a pod, as the kubelet gives it to every container."""
SERVICE_ACCOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
"""The folder in which a pod finds who it is, and proves it to the API server."""
PROFILE_ANNOTATION: Final = "egress/profile"
PARAMETER_PREFIX: Final = "egress/param."
TICKET_ANNOTATION: Final = "egress/ticket."
"""With the id of a ticket behind it. The value is a statement about the ticket, see `egress.run_ticket`."""

type Annotations = tuple[tuple[str, str], ...]
"""The annotations that are for Egress, sorted by name."""


def annotations_for_egress(found: Mapping[str, str]) -> Annotations:
    """Return the annotations that are for Egress, sorted by name."""
    return tuple(sorted((key, value) for key, value in found.items() if key.startswith(ANNOTATION_PREFIX)))


def wishes_for_egress(found: Mapping[str, str]) -> Annotations:
    """Return the same without tickets, which are about runs and not about the sandbox."""
    return tuple(each for each in annotations_for_egress(found) if not each[0].startswith(TICKET_ANNOTATION))


def tickets_for_egress(found: Mapping[str, str]) -> Annotations:
    """Return the statements about tickets, sorted by name."""
    return tuple(each for each in annotations_for_egress(found) if each[0].startswith(TICKET_ANNOTATION))


class IdentityState(StrEnum):
    """How far the life of a sandbox has come."""

    POOLED = "pooled"
    """Nobody has claimed it, so it may do nothing."""
    CLAIMED = "claimed"
    PLAIN = "plain"
    """A pod that is a sandbox by its label, and belongs to no sandbox of agent-sandbox."""
    ENDING = "ending"
    """Pod, sandbox or claim is being deleted; the rights hold until one of them is gone."""


class IdentityFault(StrEnum):
    """Why an address has no identity. Every fault denies."""

    STALE = "identity.stale"
    """A collection was not listed yet, or its watch is lost."""
    UNKNOWN = "identity.unknown"
    """No live pod has this address."""
    AMBIGUOUS = "identity.ambiguous"
    """Two live pods have this address, or two sandboxes one claim or one name."""
    HOST_NETWORK = "identity.host_network"
    """The address is that of a pod in the network of its node."""
    NAT = "identity.nat"
    """The address is that of a node, or another one behind which any pod may be."""
    UNOWNED = "identity.unowned"
    """The pod belongs to no sandbox of agent-sandbox, and is none by its label."""
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
    """The name of the sandbox; that of the pod where a plain pod is the sandbox."""
    sandbox_uid: str
    """Empty for a plain pod."""
    state: IdentityState
    claim: str = ""
    """Empty as long as the sandbox is in its pool."""
    claim_uid: str = ""
    annotations: Annotations = ()
    """The wishes for this sandbox: those of the claim, or of a plain pod."""
    template: Annotations | None = ()
    """What the template says about its pods; None if the template of the sandbox is not there."""
    tickets: Annotations = ()
    """Statements about tickets of runs in it; they come and go while its rights stay."""

    @property
    def profile(self) -> str:
        """The profile that is asked for; empty if none is."""
        return dict(self.annotations).get(PROFILE_ANNOTATION, "")

    @property
    def rights(self) -> tuple[str, str, str, Annotations, Annotations | None]:
        """The facts on which rights depend: a sandbox that is ending keeps those it had."""
        return self.pod_uid, self.sandbox_uid, self.claim_uid, self.annotations, self.template
