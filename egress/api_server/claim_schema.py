"""The objects of agent-sandbox's API that clients send and read, as far as this server has them.

A field that is unknown here is refused: a cluster may act on it, and a client would take it for granted.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct, field

CLAIM_GROUP = "extensions.agents.x-k8s.io/v1beta1"
SANDBOX_GROUP = "agents.x-k8s.io/v1beta1"
MAX_CLAIM_BYTES = 32 * 1024
"""The longest manifest of a claim: each one is kept in memory, and again for each of its changes."""

ShutdownPolicy = Literal["Delete", "DeleteForeground", "Retain"]
ConditionStatus = Literal["True", "False"]
EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class Given(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"
):
    """The base of what a client sends; it is answered in the same spelling."""


class Answered(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The base of what only the server writes."""


class PoolReference(Given, frozen=True):
    name: str


class ClaimLifecycle(Given, frozen=True):
    shutdown_time: Annotated[datetime, Meta(tz=True)] | None = None
    shutdown_policy: ShutdownPolicy = "Retain"
    """A cluster keeps what it stops unless a claim says otherwise; this server cannot."""


class PodMetadata(Given, frozen=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ClaimSpec(Given, frozen=True):
    warm_pool_ref: PoolReference
    lifecycle: ClaimLifecycle | None = None
    additional_pod_metadata: PodMetadata | None = None
    env: tuple[Raw, ...] = ()
    """Never kept: a value may be a secret."""
    volume_claim_templates: tuple[Raw, ...] = ()


class GivenMetadata(Given, frozen=True):
    name: Annotated[str, Meta(max_length=253)]
    namespace: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ClaimManifest(Given, frozen=True):
    api_version: Literal["extensions.agents.x-k8s.io/v1beta1"]
    kind: Literal["SandboxClaim"]
    metadata: GivenMetadata
    spec: ClaimSpec


class Preconditions(Given, frozen=True):
    uid: str | None = None


class DeleteOptions(Given, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    preconditions: Preconditions | None = None
    grace_period_seconds: int | None = None
    propagation_policy: Literal["Foreground", "Background"] | None = None


class ObjectMetadata(Answered, frozen=True):
    name: str
    namespace: str
    uid: str
    resource_version: str
    creation_timestamp: str
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Condition(Answered, frozen=True):
    type: str
    status: ConditionStatus
    reason: str
    message: str
    last_transition_time: str


class ClaimedSandbox(Answered, frozen=True):
    name: str
    # With capitals that the usual spelling would not have.
    pod_ips: tuple[str, ...] = field(name="podIPs", default=())


class ClaimStatus(Answered, frozen=True):
    conditions: tuple[Condition, ...] = ()
    sandbox: ClaimedSandbox | None = None


class Claim(Answered, frozen=True):
    """A claim, as it is answered."""

    api_version: str
    kind: str
    metadata: ObjectMetadata
    spec: ClaimSpec
    status: ClaimStatus = ClaimStatus()


class ClaimEvent(Struct, frozen=True):
    """A change, as a watch is told of it."""

    type: EventType
    object: Claim


class ListMetadata(Answered, frozen=True):
    resource_version: str


class ClaimList(Answered, frozen=True):
    api_version: str
    kind: str
    metadata: ListMetadata
    items: tuple[Claim, ...]


class SandboxStatusView(Answered, frozen=True):
    conditions: tuple[Condition, ...]
    pod_ips: tuple[str, ...] = field(name="podIPs", default=())


class SandboxObject(Answered, frozen=True):
    """A sandbox, as it is answered."""

    api_version: str
    kind: str
    metadata: ObjectMetadata
    status: SandboxStatusView


class Failure(Answered, frozen=True):
    """The one shape of an error."""

    api_version: str
    kind: str
    metadata: dict[str, str]
    status: str
    message: str
    reason: str
    code: int
