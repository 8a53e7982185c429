"""A port of the API with pools over sandboxes in memory, and requests of a client of Kubernetes."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from egress.api.schema import LimitSettings
from egress.api_server.sandbox_pools import SandboxPool
from egress.api_server.tcp_server import ApiPort
from egress.fleet import Fleet
from egress.fleet.protocol import FleetInfo
from tests.api_server.port_lab import TOKEN, port_settings
from tests.fleet.memory_fleet import PortMemoryRuntime

RIGHT: Final = f"Bearer {TOKEN}"
GROUP: Final = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces"
POOLS: Final = {
    "python": SandboxPool(profile="reader", profiles=("reviewer",), limits=LimitSettings(memory_mib=64)),
    "broken": SandboxPool(image="missing"),
}


@dataclass(frozen=True, slots=True)
class ClaimLab:
    fleet: Fleet
    port: ApiPort

    def ask(
        self, method: str, path: str, body: object = None, namespace: str = "default", token: str = RIGHT
    ) -> tuple[int, Any]:
        """Make one call about claims; `path` follows `sandboxclaims`."""
        return self.call(method, f"{GROUP}/{namespace}/sandboxclaims{path}", body, token)

    def call(self, method: str, target: str, body: object = None, token: str = RIGHT) -> tuple[int, Any]:
        with closing(http.client.HTTPConnection(self.port.at.host, self.port.at.port, timeout=30)) as sent:
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            sent.request(method, target, data, {"Authorization": token})
            response = sent.getresponse()
            return response.status, json.loads(response.read())

    def sandbox(self, name: str, namespace: str = "default") -> tuple[int, Any]:
        return self.call("GET", f"/apis/agents.x-k8s.io/v1beta1/namespaces/{namespace}/sandboxes/{name}")

    @contextmanager
    def watching(self, query: str, namespace: str = "default") -> Iterator[Iterator[dict[str, Any]]]:
        """The events of a watch, until its server ends it."""
        with closing(http.client.HTTPConnection(self.port.at.host, self.port.at.port, timeout=30)) as sent:
            target = f"{GROUP}/{namespace}/sandboxclaims?watch=True&{query}"
            sent.request("GET", target, headers={"Authorization": RIGHT})
            response = sent.getresponse()
            assert response.status == 200, response.read()
            yield (json.loads(line) for line in response)

    def create(
        self, name: str, namespace: str = "default", labels: dict[str, str] | None = None, **spec: object
    ) -> dict[str, Any]:
        status, claim = self.ask("POST", "", manifest(name, labels, **spec), namespace)
        assert status == 201, claim
        found: dict[str, Any] = claim
        return found

    def settled(
        self, name: str, namespace: str = "default", labels: dict[str, str] | None = None, **spec: object
    ) -> dict[str, Any]:
        """Create a claim, and return it once its condition is known."""
        claim = self.create(name, namespace, labels, **spec)
        query = f"fieldSelector=metadata.name%3D{name}&resourceVersion={claim['metadata']['resourceVersion']}"
        with self.watching(query, namespace) as events:
            return next(each["object"] for each in events if "status" in each["object"])


def manifest(name: str, labels: dict[str, str] | None = None, **spec: object) -> dict[str, object]:
    """A claim as the client sends it."""
    return {
        "apiVersion": "extensions.agents.x-k8s.io/v1beta1",
        "kind": "SandboxClaim",
        "metadata": {"name": name, "labels": labels or {}, "annotations": {}},
        "spec": {"warmPoolRef": {"name": "python"}, **spec},
    }


def ready_of(claim: dict[str, Any]) -> tuple[str, str]:
    (condition,) = claim["status"]["conditions"]
    assert condition["type"] == "Ready"
    return condition["status"], condition["reason"]


@contextmanager
def served_claims(fleet: Fleet, folder: Path) -> Iterator[ClaimLab]:
    with closing(ApiPort(replace(port_settings(folder), pools=POOLS))) as port:
        port.serve(fleet)
        yield ClaimLab(fleet, port)


@contextmanager
def claim_lab(folder: Path, runtime: PortMemoryRuntime | None = None) -> Iterator[ClaimLab]:
    about = FleetInfo(kind="docker", image="any")
    fleet = Fleet(runtime or PortMemoryRuntime({}), about=about, tick=None)
    with served_claims(fleet, folder) as lab:
        yield lab
    fleet.close()
