"""Objects as an API server holds them: a pod of about 9 kB, the sandbox above it, and a claim.

A third of such a pod are notes of who wrote which field, which every API server sends along.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

type Json = dict[str, Any]

AGENTS: Final = "agents.x-k8s.io/v1beta1"
EXTENSIONS: Final = "extensions.agents.x-k8s.io/v1beta1"
NAMESPACE: Final = "agents"
_TIME: Final = "2026-03-01T09:30:00Z"
_TRUST: Final = (
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "CURL_CA_BUNDLE",
)
_CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def address(number: int) -> str:
    """The address of the nth pod, on loopback: never that of the gateway or of the upstream."""
    return f"127.{64 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


def metadata(kind: str, number: int, owner: Json | None = None) -> Json:
    """What every object begins with; its UID says which it is."""
    return {
        "name": f"pool-{number:06x}" if kind != "claim" else f"claim-{number:06x}",
        "namespace": NAMESPACE,
        "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind}-{number}")),
        "resourceVersion": "",
        "creationTimestamp": _TIME,
        "labels": {"agents.x-k8s.io/sandbox-name-hash": f"{number:08x}"},
        "annotations": {},
        "ownerReferences": [owner] if owner else [],
    }


def owned_by(api_version: str, kind: str, found: Json) -> Json:
    """A reference to the controller of an object."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": found["name"],
        "uid": found["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


POOL: Final = owned_by(EXTENSIONS, "SandboxWarmPool", {"name": "pool", "uid": str(uuid.UUID(int=1))})


def sandbox(number: int) -> Json:
    """A member of the pool."""
    meta = metadata("sandbox", number, POOL) | {"managedFields": _managed(30)}
    spec = {"podTemplate": {"metadata": {"labels": {"egress": "workload"}}, "spec": _pod_spec()}}
    return {"apiVersion": AGENTS, "kind": "Sandbox", "metadata": meta, "spec": spec, "status": {}}


def claim(number: int, profile: str = "") -> Json:
    """A claim that has got nothing yet."""
    annotations = {"egress/profile": profile} if profile else {}
    return {
        "apiVersion": EXTENSIONS,
        "kind": "SandboxClaim",
        "metadata": metadata("claim", number) | {"managedFields": _managed(10)},
        "spec": {"warmPoolRef": {"name": "pool"}, "additionalPodMetadata": {"annotations": annotations}},
        "status": {},
    }


def pod(number: int, of: Json) -> Json:
    """The pod of a sandbox, created a moment ago: it has no node and no address."""
    meta = metadata("pod", number, owned_by(AGENTS, "Sandbox", of["metadata"]))
    meta["managedFields"] = _managed(72)
    meta["labels"]["egress"] = "workload"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": _pod_spec(),
        "status": {"phase": "Pending"},
    }


def run(found: Json, at: str) -> None:
    """Give a pod its node, its address, and a container that runs."""
    found["spec"]["nodeName"] = "node-1"
    found["status"] = {
        "phase": "Running",
        "podIP": at,
        "podIPs": [{"ip": at}],
        "hostIP": "192.0.2.1",
        "hostIPs": [{"ip": "192.0.2.1"}],
        "startTime": _TIME,
        "qosClass": "Burstable",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": _TIME}
            for kind in _CONDITIONS
        ],
        "initContainerStatuses": [_container_status("egress-gate")],
        "containerStatuses": [_container_status("agent")],
    }


def _container_status(name: str) -> Json:
    digest = "sha256:" + "5f2b8c0d9e1a4b7c" * 4
    return {
        "name": name,
        "ready": True,
        "started": True,
        "restartCount": 0,
        "image": f"registry.example/{name}:1",
        "imageID": f"registry.example/{name}@{digest}",
        "containerID": f"containerd://{digest[7:]}",
        "state": {"running": {"startedAt": _TIME}},
        "volumeMounts": [{"name": "trust", "mountPath": "/etc/egress-trust", "readOnly": True}],
    }


def _pod_spec() -> Json:
    return {
        "initContainers": [_container("egress-gate")],
        "containers": [_container("agent")],
        "volumes": [
            {"name": "trust", "configMap": {"name": "egress-trust", "defaultMode": 420}},
            {"name": "workspace", "persistentVolumeClaim": {"claimName": "workspace"}},
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["10.96.0.92"], "options": [{"name": "ndots", "value": "1"}]},
        "serviceAccountName": "default",
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{each}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for each in ("not-ready", "unreachable")
        ],
        "enableServiceLinks": False,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
    }


def _container(name: str) -> Json:
    return {
        "name": name,
        "image": f"registry.example/{name}:1",
        "args": [
            "--blocked",
            "10.96.0.1:443",
            "--blocked",
            "169.254.169.254:80",
            "--proxy",
            "10.96.0.92:3128",
        ],
        "env": [{"name": each, "value": "/etc/egress-trust/ca.crt"} for each in _TRUST]
        + [
            {"name": each, "value": "http://10.96.0.92:3128"}
            for each in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy")
        ],
        "resources": {"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
        "volumeMounts": [
            {"name": "trust", "mountPath": "/etc/egress-trust", "readOnly": True},
            {"name": "workspace", "mountPath": "/workspace"},
        ],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _managed(fields: int) -> list[Json]:
    """Who wrote which field; so many of them."""
    written: Json = {f"f:field-{each:02}-of-the-object": {".": {}, "f:name": {}} for each in range(fields)}
    return [
        {
            "manager": "controller",
            "operation": "Update",
            "apiVersion": "v1",
            "time": _TIME,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {".": {}}}, "f:spec": written},
        }
    ]
