"""The pods that become of an object: where each kind keeps its pod template."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from egress.kubernetes.manifest_node import ManifestNode
from egress.kubernetes.manifest_objects import ManifestObject

type Label = tuple[str, str]

SANDBOX_LABEL: Final[Label] = ("egress", "workload")
AGENTS_GROUP: Final = "agents.x-k8s.io"
EXTENSIONS_GROUP: Final = "extensions.agents.x-k8s.io"
POD_FIELDS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("", "Pod"): (),
    ("", "PodTemplate"): ("template",),
    ("", "ReplicationController"): ("spec", "template"),
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "ReplicaSet"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("apps", "DaemonSet"): ("spec", "template"),
    ("batch", "Job"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    (AGENTS_GROUP, "Sandbox"): ("spec", "podTemplate"),
    (EXTENSIONS_GROUP, "SandboxTemplate"): ("spec", "podTemplate"),
}
"""Path to the object with `metadata` and `spec` of the pod, by API group and kind."""

# A schema describes pods and makes none.
_SCHEMA_KINDS = frozenset({("apiextensions.k8s.io", "CustomResourceDefinition")})


@dataclass(frozen=True, slots=True)
class PodShape:
    """A pod as it is written in an object."""

    source: ManifestObject
    template: ManifestNode
    """The node with `metadata` and `spec` of the pod."""
    labels: dict[str, str]
    is_agent_sandbox: bool

    @property
    def spec(self) -> ManifestNode:
        return self.template.at("spec")

    @property
    def containers(self) -> Iterator[ManifestNode]:
        """Every container, in the order in which they are written."""
        for field in ("initContainers", "containers", "ephemeralContainers"):
            yield from self.spec.at(field).items()


def pod_of(found: ManifestObject) -> PodShape | None:
    """Return the pod of an object; None if objects of this kind have none."""
    fields = POD_FIELDS.get((found.group, found.kind))
    if fields is None:
        return None
    template = found.node.at(*fields)
    labels = template.at("metadata", "labels").text_map()
    return PodShape(found, template, labels, found.group in {AGENTS_GROUP, EXTENSIONS_GROUP})


def holds_unread_pods(found: ManifestObject) -> ManifestNode | None:
    """Return the first containers in an object of an unknown kind."""
    key = (found.group, found.kind)
    if key in POD_FIELDS or key in _SCHEMA_KINDS:
        return None
    waiting = [found.node]
    while waiting:
        node = waiting.pop()
        if isinstance(node.value, list):
            waiting += reversed(node.items())
        elif isinstance(node.value, dict):
            for name, below in node.entries().items():
                if _holds_containers(name, below):
                    return below
                waiting.append(below)
    return None


def _holds_containers(name: str, node: ManifestNode) -> bool:
    """Report whether a field is a list of containers, or the one container of a workflow's step."""
    if name == "container":
        return isinstance(node.value, dict) and "image" in node.value
    return name in {"containers", "initContainers"} and isinstance(node.value, list) and bool(node.value)
