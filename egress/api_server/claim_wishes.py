"""What a claim asks for, judged: the settings of its sandbox, or the reason why it gets none.

An object that a cluster would not store is refused at once. A wish that a cluster's controller turns down
is a condition of the claim, with that controller's reason: clients know it, and do not wait any longer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from egress.api.schema import SandboxSettings
from egress.api_server.claim_schema import Claim, ClaimManifest, ClaimSpec, PodMetadata
from egress.api_server.claimed_sandboxes import NAMESPACE_LABEL, OWNER
from egress.api_server.sandbox_pools import SUBDOMAIN_PATTERN, SandboxPool
from egress.api_server.selector_text import LABEL_KEY_PATTERN, LABEL_VALUE_PATTERN
from egress.kubernetes.pod_identity import PARAMETER_PREFIX, PROFILE_ANNOTATION
from egress.rules.language.value_pattern import value_fault
from egress.runtime.errors import SpecError

IDLE_SECONDS: Final = 24 * 3600.0
"""A client that ends without a word leaves its sandbox, which is removed after this time without use."""
RECORD_LABEL: Final = "agents.x-k8s.io/claim"
OWN_LABELS: Final = frozenset({RECORD_LABEL, NAMESPACE_LABEL})
_OWN_PREFIXES: Final = ("egress/", "egress.")
_MAX_LABEL_KEY_CHARS: Final = 128
_MAX_LABEL_VALUE_CHARS: Final = 63
_NAMESPACE_PATTERN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


class ClaimRecord(msgspec.Struct, frozen=True):
    """What a sandbox says of its claim."""

    name: str
    uid: str
    pool: str
    profile: str | None = None
    shutdown: datetime | None = None
    params: dict[str, str] = {}

    @property
    def annotations(self) -> dict[str, str]:
        """The wishes of the claim, as it wrote them."""
        profile = {PROFILE_ANNOTATION: self.profile} if self.profile else {}
        return profile | {f"{PARAMETER_PREFIX}{name}": value for name, value in self.params.items()}


class UnreadyClaimError(Exception):
    """The claim gets no sandbox; the reason is one that clients know."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def check_manifest(namespace: str, asked: ClaimManifest) -> None:
    """Raise `SpecError` for what the API server of a cluster would not store, or this one could not keep."""
    if not _NAMESPACE_PATTERN.fullmatch(namespace) or asked.metadata.namespace not in (None, namespace):
        raise SpecError("metadata.namespace is not that of the request", "name one namespace")
    if not SUBDOMAIN_PATTERN.fullmatch(asked.metadata.name):
        raise SpecError("metadata.name is not a name of Kubernetes", "use lower-case letters, digits and -")
    _check_labels("metadata.labels", asked.metadata.labels)
    _check_labels("spec.additionalPodMetadata.labels", _pod_metadata(asked.spec).labels)
    lifecycle = asked.spec.lifecycle
    if lifecycle is not None and lifecycle.shutdown_time is None:
        raise SpecError("spec.lifecycle has no shutdownTime", "name one, or leave the lifecycle out")
    if lifecycle is not None and lifecycle.shutdown_policy == "Retain":
        raise SpecError("spec.lifecycle.shutdownPolicy is not Delete", "name Delete: nothing is retained")


def _check_labels(what: str, labels: Mapping[str, str]) -> None:
    for key, value in labels.items():
        is_short = len(key) <= _MAX_LABEL_KEY_CHARS and len(value) <= _MAX_LABEL_VALUE_CHARS
        is_label = LABEL_KEY_PATTERN.fullmatch(key) and LABEL_VALUE_PATTERN.fullmatch(value)
        if not (is_short and is_label) or key in OWN_LABELS or key.startswith(_OWN_PREFIXES):
            raise SpecError(f"{what} holds a label that cannot be kept", "use short names of your own")


def claim_settings(
    claim: Claim, asked: ClaimSpec, pools: Mapping[str, SandboxPool], now: datetime
) -> SandboxSettings:
    """Return the settings of the sandbox of a claim. Raises `UnreadyClaimError`.

    `asked` is the spec as it was sent, of which the claim keeps no variables.
    """
    name = asked.warm_pool_ref.name
    # The pool comes first, since the profile is judged by it; the time last, so that none of it is lost.
    pool = pools.get(name)
    if pool is None:
        raise UnreadyClaimError("WarmPoolNotFound", "the file of --api-pools has no pool of this name")
    if asked.env:
        raise UnreadyClaimError("EnvVarsInjectionRejected", "a claim sets no variables; its commands can")
    if asked.volume_claim_templates:
        raise UnreadyClaimError("VolumeClaimTemplatesError", "this server has no volumes")
    profile, params = _wishes(asked, pool)
    shutdown = asked.lifecycle.shutdown_time if asked.lifecycle is not None else None
    left = None if shutdown is None else (shutdown - now).total_seconds()
    if left is not None and left <= 0:
        raise UnreadyClaimError("ClaimExpired", "the shutdownTime of the claim is over")
    record = ClaimRecord(claim.metadata.name, claim.metadata.uid, name, profile, shutdown, params)
    labels = {
        **_pod_metadata(asked).labels,
        **claim.metadata.labels,
        RECORD_LABEL: msgspec.json.encode(record).decode(),
        NAMESPACE_LABEL: claim.metadata.namespace,
    }
    return SandboxSettings(
        image=pool.image,
        profile=profile,
        params=params,
        limits=pool.limits,
        labels=labels,
        timeout=left,
        idle_timeout=IDLE_SECONDS,
        owner=OWNER,
    )


def _wishes(spec: ClaimSpec, pool: SandboxPool) -> tuple[str | None, dict[str, str]]:
    """Return the profile and the parameters that a claim asks for.

    The proxy judges parameters by the patterns of the rules when the sandbox is made, as it does for all.
    """
    annotations = _pod_metadata(spec).annotations
    wishes = {key: value for key, value in annotations.items() if key.startswith(_OWN_PREFIXES)}
    profile = wishes.pop(PROFILE_ANNOTATION, pool.profile)
    params = {key: wishes.pop(key) for key in sorted(wishes) if key.startswith(PARAMETER_PREFIX)}
    # Passed over, a wish would be taken for granted.
    if wishes:
        known = f"{PROFILE_ANNOTATION} and {PARAMETER_PREFIX}NAME"
        raise UnreadyClaimError("InvalidMetadata", f"this server knows {known} alone of egress/")
    if profile is not None and not pool.allows(profile):
        raise UnreadyClaimError("InvalidMetadata", "the pool does not allow the profile that the claim names")
    if any(value_fault(value) for value in params.values()):
        raise UnreadyClaimError("InvalidMetadata", "a parameter has a value that no rules can take")
    return profile, {key.removeprefix(PARAMETER_PREFIX): value for key, value in params.items()}


def _pod_metadata(spec: ClaimSpec) -> PodMetadata:
    return spec.additional_pod_metadata or PodMetadata()
