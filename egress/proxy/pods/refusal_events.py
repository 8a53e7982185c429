"""Events on claims, and on plain pods, whose wishes the rules or the template refuse."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from egress.cluster.event_writer import ClusterEvent, EventWriter, ObjectReference
from egress.kubernetes.pod_identity import Annotations, PodIdentity
from egress.proxy.pods.pod_profile import ProfileChoice

CLAIM_API: Final = "extensions.agents.x-k8s.io/v1beta1"
MAX_TOLD_REFUSALS: Final = 1024

type _Told = tuple[str, Annotations, Annotations | None, str, str]


@dataclass(slots=True)
class RefusalEvents:
    """Tells each refusal once, although every connection of the pod is refused."""

    events: EventWriter
    _told: dict[_Told, None] = field(default_factory=dict, init=False)

    def tell(self, found: PodIdentity, choice: ProfileChoice) -> None:
        """Write an Event, unless the same was told of the same object."""
        wishes = (found.annotations, found.template)
        fact = (found.claim_uid or found.pod_uid, *wishes, choice.code, choice.cause)
        if fact in self._told:
            return
        while len(self._told) >= MAX_TOLD_REFUSALS:
            del self._told[next(iter(self._told))]
        self._told[fact] = None
        message = f"everything is denied: {choice.cause} ({choice.code})"
        self.events.tell(ClusterEvent(_reference(found), "EgressDenied", message, "Warning"))


def _reference(found: PodIdentity) -> ObjectReference:
    if found.claim_uid:
        return ObjectReference("SandboxClaim", found.claim, found.claim_uid, CLAIM_API)
    return ObjectReference("Pod", found.pod, found.pod_uid)
