"""Manifests for the tests: those that Egress ships, and objects of agent-sandbox with the same pod."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from egress.kubernetes.manifest_check import AcceptedRisk, CheckedManifests, check_manifests
from egress.kubernetes.manifest_objects import objects_of
from egress.kubernetes.manifest_set import ManifestSet, PodLabels, manifest_set
from egress.kubernetes.manifest_text import ManifestText, read_manifests

type Json = dict[str, Any]
type Change = Callable[[list[Json]], object]

SHIPPED: Final = Path(__file__).parents[3] / "container/kubernetes.yaml"
_PARTS: Final[list[Json]] = list(YAML(typ="safe", pure=True).load_all(SHIPPED.read_text("utf-8")))
_EXTENSIONS: Final = "extensions.agents.x-k8s.io/v1beta1"


def shipped() -> list[Json]:
    """The objects of container/kubernetes.yaml that the check reads: no admission policies."""
    return [deepcopy(each) for each in _PARTS if not each["kind"].startswith("Validating")]


def part(objects: list[Json], kind: str, name: str = "") -> Json:
    (found,) = [each for each in objects if each["kind"] == kind and name in {"", each["metadata"]["name"]}]
    return found


def pod(objects: list[Json]) -> Json:
    """The pod spec of the workload, or of the template that took its place."""
    for kind, path in (("Pod", ("spec",)), ("SandboxTemplate", ("spec", "podTemplate", "spec"))):
        for each in objects:
            if each["kind"] == kind:
                found: Json = each
                for key in path:
                    found = found[key]
                return found
    raise LookupError


def container(objects: list[Json]) -> Json:
    found: Json = pod(objects)["containers"][0]
    return found


def gate(objects: list[Json]) -> Json:
    found: Json = pod(objects)["initContainers"][0]
    return found


def agent_sandboxes() -> list[Json]:
    """The shipped objects with a template, a pool and a claim of agent-sandbox instead of the pod."""
    objects = shipped()
    workload = part(objects, "Pod")
    objects.remove(workload)
    meta = {"namespace": "agents"}
    egress = deepcopy(part(objects, "NetworkPolicy", "workload-to-proxy")["spec"]["egress"])
    objects += [
        {
            "apiVersion": _EXTENSIONS,
            "kind": "SandboxTemplate",
            "metadata": {"name": "python", **meta},
            "spec": {
                "networkPolicy": {"egress": egress},
                "podTemplate": {"metadata": {"labels": {"egress": "workload"}}, "spec": workload["spec"]},
            },
        },
        {
            "apiVersion": _EXTENSIONS,
            "kind": "SandboxWarmPool",
            "metadata": {"name": "pool", **meta},
            "spec": {
                "replicas": 2,
                "sandboxTemplateRef": {"name": "python"},
                "updateStrategy": {"type": "Recreate"},
            },
        },
        {
            "apiVersion": _EXTENSIONS,
            "kind": "SandboxClaim",
            "metadata": {"name": "claim", **meta},
            "spec": {"warmPoolRef": {"name": "pool"}},
        },
    ]
    return objects


def text_of(objects: list[Json]) -> str:
    """The objects as a stream of documents; JSON is YAML."""
    return "---\n".join(f"{json.dumps(each)}\n" for each in objects)


def read(objects: list[Json]) -> ManifestText:
    return read_manifests("objects.yaml", text_of(objects))


def as_set(objects: list[Json], labels: PodLabels | None = None) -> ManifestSet:
    return manifest_set(objects_of(read(objects), ""), labels or PodLabels())


def checked(objects: list[Json], *risks: AcceptedRisk, labels: PodLabels | None = None) -> CheckedManifests:
    return check_manifests([read(objects)], "", labels or PodLabels(), risks)


def codes(objects: list[Json]) -> set[str]:
    return {finding.code for finding in checked(objects).findings}


def changed(objects: list[Json], change: Change) -> list[Json]:
    change(objects)
    return objects
