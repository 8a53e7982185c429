"""Objects of agent-sandbox as its controllers write them, and the JSON that an API server sends of them."""

from __future__ import annotations

import json
from typing import Any, Final

from egress.kubernetes.watch_events import (
    EventType,
    WatchedList,
    WatchEvent,
    WatchKind,
    read_event,
    read_list,
)

type Json = dict[str, Any]

AGENTS: Final = "agents.x-k8s.io/v1beta1"
EXTENSIONS: Final = "extensions.agents.x-k8s.io/v1beta1"
NODE: Final = "192.0.2.1"
POOL: Final = {
    "apiVersion": EXTENSIONS,
    "kind": "SandboxWarmPool",
    "name": "pool",
    "uid": "pool-uid",
    "controller": True,
}


def owner(kind: str, name: str, uid: str = "") -> Json:
    version = AGENTS if kind == "Sandbox" else EXTENSIONS
    return {
        "apiVersion": version,
        "kind": kind,
        "name": name,
        "uid": uid or f"{name}-uid",
        "controller": True,
    }


def metadata(name: str, version: int, *owners: Json, **fields: Any) -> Json:  # noqa: ANN401 - JSON
    return {
        "name": name,
        "namespace": "agents",
        "uid": f"{name}-uid",
        "resourceVersion": str(version),
        "ownerReferences": list(owners),
        "labels": {"ignored": "yes"},
        **fields,
    }


def pod(name: str, version: int, *addresses: str, sandbox: str = "s", phase: str = "Running") -> Json:
    return {
        "metadata": metadata(name, version, owner("Sandbox", sandbox)),
        "spec": {"containers": [], "nodeName": "node"},
        "status": {
            "phase": phase,
            "podIP": addresses[0] if addresses else "",
            "podIPs": [{"ip": each} for each in addresses],
            "hostIP": NODE,
        },
    }


def plain_pod(name: str, version: int, *addresses: str, **annotations: str) -> Json:
    """A sandbox by its label alone."""
    found = pod(name, version, *addresses)
    found["metadata"] |= {"ownerReferences": [], "labels": {"egress": "workload"}}
    found["metadata"]["annotations"] = {f"egress/{key}": value for key, value in annotations.items()}
    return found


def sandbox(name: str, version: int, holder: Json = POOL, template: str = "") -> Json:
    made_from = {"annotations": {"agents.x-k8s.io/sandbox-template-ref": template}} if template else {}
    return {"metadata": metadata(name, version, holder, **made_from), "spec": {}}


def template(name: str, version: int, **annotations: str) -> Json:
    """A template whose pods have these annotations for Egress; `profile_max` is `egress/profile-max`."""
    found = {f"egress/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        "metadata": metadata(name, version),
        "spec": {"podTemplate": {"metadata": {"annotations": {**found, "other": "x"}}, "spec": {}}},
    }


def claim(name: str, version: int, got: str = "", profile: str = "", **parameters: str) -> Json:
    annotations = {"egress/profile": profile} if profile else {}
    annotations |= {f"egress/param.{key}": value for key, value in parameters.items()}
    return {
        "metadata": metadata(name, version),
        "spec": {"warmPoolRef": {"name": "pool"}, "additionalPodMetadata": {"annotations": annotations}},
        "status": {"sandbox": {"name": got}} if got else {},
    }


def event(kind: WatchKind, value: Json, change: EventType = EventType.MODIFIED) -> WatchEvent:
    return read_event(kind, json.dumps({"type": change, "object": value}).encode())


def listed(kind: WatchKind, version: int, *values: Json) -> WatchedList:
    text = {"metadata": {"resourceVersion": str(version)}, "items": list(values)}
    return read_list(kind, json.dumps(text).encode())
