"""Claims of agent-sandbox: a sandbox from a warm pool, whose pod is ready before anybody asks for it.

The pool's template decides about the pod: its image, its limits, its gate. A claim names the pool, a profile
and an end. Which pod it gets stands in its status alone: the pod keeps the name that the pool gave it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from egress.cluster.api_call import ApiRefusedError, call
from egress.cluster.api_server import ClusterApi
from egress.runtime.errors import SandboxExistsError, SpecError, UnsupportedError
from egress.runtime.kubernetes.api_errors import translated_errors
from egress.runtime.kubernetes.pod_manifest import OWNER_LABEL, check_name, wished_annotations
from egress.runtime.spec import SandboxLimits, Spec

POOL_PREFIX: Final = "pool:"
"""What stands in front of the name of a warm pool, in place of an image."""
_BASE: Final = "/apis/extensions.agents.x-k8s.io/v1beta1"
_COLLECTION: Final = "sandboxclaims"


class _Metadata(msgspec.Struct):
    name: str
    uid: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Bound(msgspec.Struct):
    name: str = ""


class _Condition(msgspec.Struct):
    type: str
    status: str
    message: str = ""


class _Status(msgspec.Struct):
    sandbox: _Bound = msgspec.field(default_factory=_Bound)
    conditions: tuple[_Condition, ...] = ()


class _PodMetadata(msgspec.Struct):
    annotations: dict[str, str] = {}


class _Spec(msgspec.Struct, rename="camel"):
    additional_pod_metadata: _PodMetadata = msgspec.field(default_factory=_PodMetadata)


class PoolClaim(msgspec.Struct):
    """A claim, as far as a sandbox depends on it."""

    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def pod(self) -> str:
        """The name of its pod, which is that of its Sandbox; empty until it has one and is ready."""
        is_ready = any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)
        return self.status.sandbox.name if is_ready else ""

    @property
    def delay(self) -> str:
        """Why it is not ready yet, as far as that is known."""
        found = [each.message for each in self.status.conditions if each.status != "True" and each.message]
        shown = " ".join("; ".join(found).split())[:300]
        return "".join(letter for letter in shown if letter.isprintable())


class _ClaimList(msgspec.Struct):
    items: tuple[PoolClaim, ...] = ()


def check_claim(spec: Spec) -> None:
    """Refuse what the template of a pool decides. Raises `SpecError` and `UnsupportedError`."""
    check_name(spec.name)
    check_name(spec.image.removeprefix(POOL_PREFIX))
    decided = {
        "mounts": bool(spec.mounts),
        "read_only": spec.read_only,
        "limits": spec.limits != SandboxLimits(),
        "ports": bool(set(spec.ports) - {80, 443}),
    }
    for name, is_asked in decided.items():
        if is_asked:
            raise UnsupportedError(
                f"{name} of a sandbox from a warm pool cannot be chosen",
                "set it in the SandboxTemplate of the pool, or name an image in place of the pool",
            )


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of one namespace. Each call raises `EngineError` and `EngineUnavailableError`."""

    api: ClusterApi

    def create(self, spec: Spec, owner: str, end: float) -> PoolClaim:
        """Claim a sandbox until `end`, in seconds of the clock.

        Raises `SandboxExistsError`, and `SpecError` for a cluster without claims.
        """
        shutdown = datetime.fromtimestamp(end, UTC).isoformat(timespec="seconds")
        body: Mapping[str, object] = {
            "apiVersion": "extensions.agents.x-k8s.io/v1beta1",
            "kind": "SandboxClaim",
            "metadata": {"name": spec.name, "labels": {OWNER_LABEL: owner}},
            "spec": {
                "warmPoolRef": {"name": spec.image.removeprefix(POOL_PREFIX)},
                "additionalPodMetadata": {"annotations": wished_annotations(spec)},
                # The controller ends it, whoever is left.
                "lifecycle": {
                    "shutdownTime": shutdown.replace("+00:00", "Z"),
                    "shutdownPolicy": "Delete",
                },
            },
        }
        with translated_errors():
            try:
                answer = call(self.api, "POST", self.api.namespaced(_COLLECTION, base=_BASE), body)
                return msgspec.convert(answer, PoolClaim)
            except ApiRefusedError as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    raise SpecError(
                        "the cluster has no warm pools",
                        "install agent-sandbox 1.0 with its extensions, or name an image",
                    ) from None
                if error.reason != "AlreadyExists":
                    raise
        raise SandboxExistsError(
            f"the namespace {self.api.namespace} has a claim {spec.name} already",
            "remove it, or choose another name",
        )

    def find(self, name: str) -> PoolClaim | None:
        with translated_errors():
            try:
                answer = call(self.api, "GET", self.api.namespaced(_COLLECTION, name, _BASE))
                return msgspec.convert(answer, PoolClaim)
            except ApiRefusedError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
        return None

    def annotate(self, name: str, annotations: Mapping[str, str | None]) -> None:
        """Set annotations of a claim, and remove those that are None."""
        body = {"metadata": {"annotations": annotations}}
        with translated_errors():
            call(self.api, "PATCH", self.api.namespaced(_COLLECTION, name, _BASE), body)

    def delete(self, name: str, uid: str) -> None:
        """Begin to delete a claim, and with it its sandbox. Does nothing if it is gone."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        with translated_errors():
            try:
                call(self.api, "DELETE", self.api.namespaced(_COLLECTION, name, _BASE), body)
            except ApiRefusedError as error:
                if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                    raise

    def labelled(self, selector: str) -> tuple[PoolClaim, ...]:
        """Return the claims that a selector of labels selects; none in a cluster without claims."""
        query = urlencode({"labelSelector": selector}, quote_via=quote)
        with translated_errors():
            try:
                answer = call(self.api, "GET", f"{self.api.namespaced(_COLLECTION, base=_BASE)}?{query}")
                return msgspec.convert(answer, _ClaimList).items
            except ApiRefusedError as error:
                # Who may make pods alone has no claims either.
                if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
                    raise
        return ()
