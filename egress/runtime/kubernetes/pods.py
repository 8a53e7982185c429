"""The pods of one namespace, at its API server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from egress.cluster.api_call import ApiRefusedError, call
from egress.cluster.api_server import ClusterApi
from egress.runtime.errors import SandboxExistsError
from egress.runtime.kubernetes.api_errors import translated_errors
from egress.runtime.kubernetes.pod_status import PodRecord, read_pod

_GONE: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
"""How the deletion of a pod is refused that has gone, or whose name another one has."""


class _PodList(msgspec.Struct):
    items: tuple[PodRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods. Each call raises `EngineError` and `EngineUnavailableError`."""

    api: ClusterApi

    def create(self, manifest: Mapping[str, object], name: str) -> PodRecord:
        """Create a pod. Raises `SandboxExistsError`."""
        with translated_errors():
            try:
                return read_pod(call(self.api, "POST", self.api.namespaced("pods"), manifest))
            except ApiRefusedError as error:
                if error.reason != "AlreadyExists":
                    raise
        raise SandboxExistsError(
            f"the namespace {self.api.namespace} has a pod {name} already",
            "remove it, or choose another name",
        )

    def find(self, name: str) -> PodRecord | None:
        """Return a pod; None if there is none of this name."""
        with translated_errors():
            try:
                return read_pod(call(self.api, "GET", self.api.namespaced("pods", name)))
            except ApiRefusedError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
        return None

    def annotate(self, name: str, annotations: Mapping[str, str | None]) -> None:
        """Set annotations of a pod, and remove those that are None."""
        body = {"metadata": {"annotations": annotations}}
        with translated_errors():
            call(self.api, "PATCH", self.api.namespaced("pods", name), body)

    def delete(self, name: str, uid: str) -> None:
        """Begin to delete a pod. Does nothing if it is gone, or if another one has its name."""
        # Not at once: the object goes when the node has ended the processes, and not before.
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 1}
        with translated_errors():
            try:
                call(
                    self.api,
                    "DELETE",
                    self.api.namespaced("pods", name),
                    {**options, "preconditions": {"uid": uid}},
                )
            except ApiRefusedError as error:
                if error.status not in _GONE:
                    raise

    def labelled(self, selector: str) -> tuple[PodRecord, ...]:
        """Return the pods that a selector of labels selects."""
        query = urlencode({"labelSelector": selector}, quote_via=quote)
        with translated_errors():
            answer = call(self.api, "GET", f"{self.api.namespaced('pods')}?{query}")
            return msgspec.convert(answer, _PodList).items
