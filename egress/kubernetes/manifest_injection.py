"""Complete the manifests of sandboxes, and leave every other document as it is written.

A document that needs nothing keeps its text, so a second run changes nothing. A document that is completed
is written anew: its values stay, its comments do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

from egress.errors import ContentError
from egress.kubernetes.authority_job import is_authority_job
from egress.kubernetes.gate_check import check_gate, is_gate
from egress.kubernetes.manifest_check import check_sandbox
from egress.kubernetes.manifest_findings import ManifestFinding, finding_at, finding_of_text
from egress.kubernetes.manifest_node import ManifestNode
from egress.kubernetes.manifest_objects import ManifestObject, objects_of
from egress.kubernetes.manifest_set import PROXY_PORTS, ManifestSet, has_label, manifest_set
from egress.kubernetes.manifest_text import ManifestText, read_manifests
from egress.kubernetes.network_policies import is_managed
from egress.kubernetes.pod_injection import InjectionPlan, inject_pod, keeps_proxy
from egress.kubernetes.pod_shapes import EXTENSIONS_GROUP, POD_FIELDS, PodShape, pod_of
from egress.kubernetes.sidecar_injection import SidecarPlan, inject_sidecar
from egress.kubernetes.value_edits import Fields
from egress.kubernetes.yaml_writer import write_yaml
from egress.rules.language.document import Value, ValuePath
from egress.types import Severity

ROUTER_NAMESPACE: Final = "agent-sandbox-system"
_ROUTER: Final[Fields] = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ROUTER_NAMESPACE}},
    "podSelector": {"matchLabels": {"app": "sandbox-router"}},
}
"""The router of agent-sandbox, which its own default policy admits."""


@dataclass(frozen=True, slots=True)
class InjectedManifests:
    """The completed text, and what is still weak in it."""

    text: str
    completed: tuple[str, ...]
    """Titles of the objects that were changed."""
    findings: tuple[ManifestFinding, ...]

    @property
    def is_usable(self) -> bool:
        return all(finding.severity is not Severity.ERROR for finding in self.findings)


def inject_manifests(
    text: ManifestText, plan: InjectionPlan | SidecarPlan, namespace: str = "", skipped: Iterable[str] = ()
) -> InjectedManifests:
    """Complete the sandboxes of a file, but for the objects whose names are skipped."""
    if text.findings:
        return InjectedManifests("", (), tuple(map(finding_of_text, text.findings)))
    names, completed = frozenset(skipped), []
    values = {document.number: deepcopy(document.value) for document in text.documents}
    for found in objects_of(text, namespace):
        value = _at(values[found.document.number], found.node.path)
        if found.name not in names:
            _complete(found, value, plan)
        if value != found.node.value:
            completed.append(found.title)
    written = _write(text, values)
    reread = read_manifests(text.name, written)
    # Whatever was not understood would change on its way through: then nothing is written at all.
    if [document.value for document in reread.documents] != list(values.values()):
        raise ContentError("the manifests cannot be written as they were read", "report the bug")
    manifests = manifest_set(objects_of(reread, namespace), plan.labels)
    findings = tuple(dict.fromkeys(_remaining(manifests, names)))
    return InjectedManifests(written, tuple(completed), findings)


def _complete(found: ManifestObject, value: Value, plan: InjectionPlan | SidecarPlan) -> None:
    pod = pod_of(found)
    is_ours = pod is not None and (has_label(pod.labels, plan.labels.proxy) or is_authority_job(pod))
    if pod is not None and (pod.is_agent_sandbox or not is_ours):
        template = _at(value, POD_FIELDS[found.group, found.kind])
        if isinstance(template, dict) and isinstance(plan, SidecarPlan):
            inject_sidecar(template, plan)
        elif isinstance(template, dict) and isinstance(plan, InjectionPlan):
            inject_pod(template, plan, keeps_gate=_has_good_gate(pod, plan))
    if isinstance(plan, InjectionPlan):
        _complete_extension(found, value, plan)


def _complete_extension(found: ManifestObject, value: Value, plan: InjectionPlan) -> None:
    """Give the templates and pools of agent-sandbox what their controller would take from its defaults."""
    spec = value.get("spec") if isinstance(value, dict) else None
    if found.group != EXTENSIONS_GROUP or not isinstance(spec, dict):
        return
    node = found.node.at("spec")
    if found.kind == "SandboxTemplate" and is_managed(node) and node.at("networkPolicy").is_missing:
        # Without it the controller opens every public address.
        spec["networkPolicy"] = template_policy(plan)
    if found.kind == "SandboxWarmPool" and node.at("updateStrategy").is_missing:
        spec["updateStrategy"] = {"type": "Recreate"}


def template_policy(plan: InjectionPlan) -> Fields:
    """Make the policy of a template of agent-sandbox: in from its router, out to the proxy."""
    key, label = plan.labels.proxy
    ports: list[Value] = [{"port": port, "protocol": protocol} for protocol, port in PROXY_PORTS]
    peer: Value = {"podSelector": {"matchLabels": {key: label}}}
    return {"ingress": [{"from": [deepcopy(_ROUTER)]}], "egress": [{"to": [peer], "ports": ports}]}


def _has_good_gate(pod: PodShape, plan: InjectionPlan) -> bool:
    first = pod.spec.at("initContainers").items()[:1]
    is_there = bool(first) and is_gate(first[0]) and keeps_proxy(first[0], plan)
    return is_there and not list(check_gate(pod, needs_uid=plan.tells_pods_apart))


def _remaining(manifests: ManifestSet, skipped: frozenset[str]) -> Iterator[ManifestFinding]:
    """Return what is weak in the pods themselves; policies are for the check of all files."""
    for pod in manifests.sandboxes:
        if pod.source.name not in skipped:
            yield from check_sandbox(manifests, pod)
    for found in manifests.objects:
        for fault in found.node.faults:
            node = ManifestNode(found.node.value, fault.path, [])
            yield finding_at("manifest.shape", found, node, f"{fault.expected} is expected")


def _at(value: Value, path: ValuePath) -> Value:
    """Return the value at a path that was read before; an empty mapping if there is none."""
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step, {})
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
    return value


def _write(text: ManifestText, values: dict[int, Value]) -> str:
    """Write the file: new values below the comments of their document, and all other lines as they are."""
    lines = text.text.splitlines(keepends=True)
    # From the end, so that the numbers of the lines before stay true.
    for document in reversed(text.documents):
        if values[document.number] != document.value:
            lines[document.root_line : document.end_line] = [write_yaml(values[document.number])]
    return "".join(lines)
