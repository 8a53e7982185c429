"""What the controller of agent-sandbox writes, step by step, so that a trial can take the steps in any order.

It is no controller: it watches nothing, and writes only what it is told to.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any, Final

from tests.cluster.running_cluster import RunningCluster, wait

type Json = dict[str, Any]

AGENTS: Final = "agents.x-k8s.io/v1beta1"
EXTENSIONS: Final = "extensions.agents.x-k8s.io/v1beta1"
PLURALS: Final = {
    "Sandbox": "sandboxes",
    "SandboxTemplate": "sandboxtemplates",
    "SandboxWarmPool": "sandboxwarmpools",
    "SandboxClaim": "sandboxclaims",
}
NAME_HASH: Final = "agents.x-k8s.io/sandbox-name-hash"
TEMPLATE_HASH: Final = "agents.x-k8s.io/sandbox-template-ref-hash"
TEMPLATE: Final = "agents.x-k8s.io/sandbox-template-ref"
POOL: Final = "agents.x-k8s.io/warm-pool-sandbox"


@dataclass(frozen=True, slots=True)
class AgentSandbox:
    """The objects of agent-sandbox in one namespace."""

    cluster: RunningCluster
    namespace: str

    # Objects of users -----------------------------------------------------------------------------

    def template(self, name: str, pod: Json, **spec: object) -> Json:
        """A blueprint: labels, annotations and spec are those of a pod."""
        metadata = {key: pod["metadata"].get(key, {}) for key in ("labels", "annotations")}
        blueprint = {"podTemplate": {"metadata": metadata, "spec": pod["spec"]}}
        return self._create(EXTENSIONS, "SandboxTemplate", name, blueprint | spec)

    def pool(self, name: str, template: Json, replicas: int = 1) -> Json:
        reference = {"name": template["metadata"]["name"]}
        strategy = {"type": "Recreate"}
        spec = {"replicas": replicas, "sandboxTemplateRef": reference, "updateStrategy": strategy}
        return self._create(EXTENSIONS, "SandboxWarmPool", name, spec)

    def claim(self, name: str, pool: Json, annotations: dict[str, str] | None = None) -> Json:
        spec: Json = {"warmPoolRef": {"name": pool["metadata"]["name"]}}
        if annotations:
            spec["additionalPodMetadata"] = {"annotations": annotations}
        return self._create(EXTENSIONS, "SandboxClaim", name, spec)

    # What the controller makes of them ------------------------------------------------------------

    def policy(self, template: Json) -> Json:
        """The policy of a template, as the controller writes it: open to the internet where none is given."""
        name = template["metadata"]["name"]
        rules = template["spec"].get("networkPolicy") or {"egress": [{"to": [{"ipBlock": _PUBLIC}]}]}
        spec = {
            "podSelector": {"matchLabels": {TEMPLATE_HASH: fnv(name)}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": rules.get("ingress", []),
            "egress": rules.get("egress", []),
        }
        meta = {"name": f"{name}-network-policy", "ownerReferences": [owner(template)]}
        path = f"/apis/networking.k8s.io/v1/namespaces/{self.namespace}/networkpolicies"
        return self.cluster.api.create(path, {"metadata": meta, "spec": spec})

    def sandbox(self, name: str, holder: Json, template: Json) -> Json:
        """A sandbox that a pool or a claim holds."""
        spec = {"podTemplate": template["spec"]["podTemplate"], "operatingMode": "Running"}
        meta = {"ownerReferences": [owner(holder)], "annotations": {TEMPLATE: template["metadata"]["name"]}}
        return self._create(AGENTS, "Sandbox", name, spec, meta)

    def member(self, pool: Json, template: Json) -> Json:
        """A sandbox that waits in its pool, with its pod."""
        found = self.sandbox(f"{pool['metadata']['name']}-{secrets.token_hex(3)}", pool, template)
        self.pod(found, template, {POOL: fnv(pool["metadata"]["name"])})
        return found

    def pod(self, sandbox: Json, template: Json, labels: dict[str, str] | None = None) -> Json:
        """The pod of a sandbox, which has its name."""
        name, blueprint = sandbox["metadata"]["name"], template["spec"]["podTemplate"]
        metadata = blueprint["metadata"] | {"name": name, "ownerReferences": [owner(sandbox)]}
        own = {NAME_HASH: fnv(name), TEMPLATE_HASH: fnv(template["metadata"]["name"])}
        metadata["labels"] = metadata["labels"] | own | (labels or {})
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        return self.cluster.api.create(path, {"metadata": metadata, "spec": blueprint["spec"]})

    def count(self, pool: Json, ready: int) -> None:
        """Say how many members of a pool are ready, where that has changed."""
        if pool.get("status", {}).get("readyReplicas") != ready:
            self._patch(pool, {"status": {"readyReplicas": ready}}, "/status")

    # Adoption, in its steps -----------------------------------------------------------------------

    def name_sandbox(self, claim: Json, sandbox: Json) -> None:
        """First: the claim is annotated with the sandbox that it is going to get."""
        annotation = {"agents.x-k8s.io/sandbox-name": sandbox["metadata"]["name"]}
        self._patch(claim, {"metadata": {"annotations": annotation}})

    def move_owner(self, claim: Json, sandbox: Json) -> None:
        """Second: the sandbox belongs to the claim, and to the pool no more."""
        self._patch(sandbox, {"metadata": {"ownerReferences": [owner(claim)]}})

    def answer(self, claim: Json, sandbox: Json) -> None:
        """Third: the status of the claim names the sandbox."""
        status = {
            "sandbox": {"name": sandbox["metadata"]["name"]},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        self._patch(claim, {"status": status}, "/status")

    def relabel(self, sandbox: Json) -> None:
        """Last, and up to a second later: the pod loses the label of the pool."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{sandbox['metadata']['name']}"
        self.cluster.api.patch(path, {"metadata": {"labels": {POOL: None}}})

    def adopt(self, claim: Json, sandbox: Json) -> None:
        """All steps in the usual order."""
        self.name_sandbox(claim, sandbox)
        self.move_owner(claim, sandbox)
        self.answer(claim, sandbox)
        self.relabel(sandbox)

    # Sleep ----------------------------------------------------------------------------------------

    def suspend(self, sandbox: Json) -> None:
        """The pod goes; sandbox and claim stay."""
        self._patch(sandbox, {"spec": {"operatingMode": "Suspended"}})
        self.cluster.delete_pods(self.namespace, sandbox["metadata"]["name"])

    def resume(self, sandbox: Json, template: Json) -> Json:
        """Another pod of the same name."""
        self._patch(sandbox, {"spec": {"operatingMode": "Running"}})
        return self.pod(sandbox, template)

    def delete(self, value: Json) -> None:
        """Delete an object; what it owns is deleted by the cluster."""
        path = self._path(value["apiVersion"], value["kind"], value["metadata"]["name"])
        self.cluster.api.delete(path)

    def remove_all(self) -> None:
        for kind in reversed(PLURALS.values()):
            self.cluster.kubectl("-n", self.namespace, "delete", kind, "--all")

    # ----------------------------------------------------------------------------------------------

    def _create(self, version: str, kind: str, name: str, spec: Json, metadata: Json | None = None) -> Json:
        meta = {"name": name, **(metadata or {})}
        value = {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}
        return self.cluster.api.create(self._path(version, kind), value)

    def _patch(self, value: Json, change: Json, part: str = "") -> None:
        path = self._path(value["apiVersion"], value["kind"], value["metadata"]["name"])
        self.cluster.api.patch(path + part, change)

    def _path(self, version: str, kind: str, name: str = "") -> str:
        path = f"/apis/{version}/namespaces/{self.namespace}/{PLURALS[kind]}"
        return f"{path}/{name}" if name else path


def define(cluster: RunningCluster, definitions: str) -> None:
    """Teach the API server the kinds of agent-sandbox."""
    cluster.kubectl("apply", "-f", definitions)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")

    def are_served() -> bool:
        return bool(cluster.api.get(f"/apis/{EXTENSIONS}")["resources"])

    wait(are_served, lambda: "the kinds of agent-sandbox are not served")


def owner(value: Json) -> Json:
    """The reference by which a controller says that something is its own."""
    meta = value["metadata"]
    return {
        "apiVersion": value["apiVersion"],
        "kind": value["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }


def fnv(name: str) -> str:
    """The hash of a name in labels: FNV-1a with 32 bits."""
    found = 0x811C9DC5
    for byte in name.encode():
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{found:08x}"


_PUBLIC: Final = {
    "cidr": "0.0.0.0/0",
    "except": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"],
}
