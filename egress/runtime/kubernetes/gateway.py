"""Look up the gateway of a namespace: its address, its image and its certificate.

It runs already. It tells sandboxes apart by the pods that it watches, so nothing is asked of it to admit one,
and nothing to let go of one. A pod behind no gateway would never become ready: its gate dials the gateway.
What is missing is named before a pod is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

import msgspec

from egress.cluster.api_call import ApiRefusedError, call
from egress.cluster.api_server import ClusterApi
from egress.runtime.errors import GatewayError, GatewayRefusedError, UnsupportedError
from egress.runtime.kit.trust_folder_variables import AUTHORITY_NAME, BUNDLE_NAME
from egress.runtime.kubernetes.api_errors import translated_errors
from egress.runtime.proxy_client import Admission, Bar, LivenessConnection, SandboxListener
from egress.runtime.spec import NO_VALUES

GATEWAY_NAME: Final = "egress-proxy"
"""The name of the gateway's Service, and the label `app` of its pods. A namespace has one gateway."""
TRUST_NAME: Final = "egress-trust"
_HINT: Final = "install the chart in this namespace, or name another one in EGRESS_KUBERNETES_NAMESPACE"


@dataclass(frozen=True, slots=True)
class GatewayFacts:
    """The facts about a gateway that the pod of a sandbox needs."""

    address: str
    """The address of its Service."""
    image: str
    """The image that it runs from, which holds the gate too."""
    authority: str
    """The certificate that it shows, as PEM."""


class _Named(msgspec.Struct):
    image: str = ""


class _PodSpec(msgspec.Struct):
    containers: tuple[_Named, ...] = ()


class _Pod(msgspec.Struct):
    spec: _PodSpec


class _Pods(msgspec.Struct):
    items: tuple[_Pod, ...] = ()


class _ServiceSpec(msgspec.Struct):
    cluster_ip: str = msgspec.field(name="clusterIP", default="")


class _Service(msgspec.Struct):
    spec: _ServiceSpec


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


class ClusterGateway:
    """The gateway of the namespace; a `ProxyClient` for the lifecycle of sandboxes."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api

    def facts(self) -> GatewayFacts:
        """Look at the gateway. Raises `GatewayError` for one that is not there or not complete."""
        place = f"the namespace {self._api.namespace}"
        service = self._read(_Service, "services", GATEWAY_NAME, f"{place} has no gateway")
        trust = self._read(_ConfigMap, "configmaps", TRUST_NAME, f"{place} has no certificate of a gateway")
        authority = trust.data.get(AUTHORITY_NAME, "")
        # Checked although the namespace is trusted: a private key must never enter a sandbox.
        if any("PRIVATE KEY" in value for value in trust.data.values()):
            raise GatewayRefusedError(f"the ConfigMap {TRUST_NAME} holds a private key", "remove the key")
        if "BEGIN CERTIFICATE" not in authority or BUNDLE_NAME not in trust.data:
            raise GatewayError(
                f"the ConfigMap {TRUST_NAME} of {place} lacks {AUTHORITY_NAME} or {BUNDLE_NAME}", _HINT
            )
        missing = f"{place} has no pod of a gateway"
        found = self._read(_Pods, "pods", "", missing, f"labelSelector=app%3D{GATEWAY_NAME}")
        images = [each.image for pod in found.items for each in pod.spec.containers if each.image]
        if not images:
            raise GatewayError(missing, _HINT)
        try:
            address = str(ip_address(service.spec.cluster_ip))
        except ValueError:
            raise GatewayError(f"the Service {GATEWAY_NAME} of {place} has no address", _HINT) from None
        return GatewayFacts(address, images[0], authority)

    def _read[T: msgspec.Struct](
        self, kind: type[T], collection: str, name: str, missing: str, query: str = ""
    ) -> T:
        path = self._api.namespaced(collection, name) + (f"?{query}" if query else "")
        with translated_errors():
            try:
                return msgspec.convert(call(self._api, "GET", path), kind)
            except ApiRefusedError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
        raise GatewayError(missing, _HINT)

    # For the lifecycle of sandboxes

    def admit(
        self,
        name: str,
        profile: str | None = None,  # noqa: ARG002 - it is asked nothing
        seed: str = "",  # noqa: ARG002
        *,
        parameters: Mapping[str, str] = NO_VALUES,  # noqa: ARG002
    ) -> Admission:
        """Return what every sandbox of the namespace trusts. Which profile a pod has is said by the pod."""
        return Admission(name, self.facts().authority)

    def hand_over(self, name: str, listeners: Iterable[SandboxListener]) -> None:
        """Refuse every listener: a pod has none of this machine."""
        for each in listeners:
            raise UnsupportedError(
                f"the port {each.port} of the sandbox {name} cannot lead to the gateway",
                "its Service listens on the ports that its chart names",
            )

    def bar(self, name: str, bar: Bar) -> None:  # noqa: ARG002 - whatever the reason is
        raise UnsupportedError(
            f"the access of the sandbox {name} cannot be revoked from here",
            "use `egress kill` at the gateway",
        )

    def dismiss(self, name: str) -> None:
        """Do nothing: the gateway lets go of a pod when it is gone."""

    def open_liveness(self) -> LivenessConnection:
        raise UnsupportedError("the gateway is not watched from here", "see its own readiness")
