"""Check manifests as a whole: every weakness of the fence around the sandboxes in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from egress.kubernetes.agent_sandbox_check import check_agent_sandbox
from egress.kubernetes.container_check import check_container
from egress.kubernetes.fence_check import check_fence
from egress.kubernetes.gate_check import check_gate
from egress.kubernetes.manifest_findings import ManifestFinding, finding_at, finding_of_file, finding_of_text
from egress.kubernetes.manifest_node import ManifestNode
from egress.kubernetes.manifest_objects import MAX_OBJECTS, ManifestObject, objects_of
from egress.kubernetes.manifest_set import ManifestSet, PodLabels, manifest_set
from egress.kubernetes.manifest_text import ManifestText
from egress.kubernetes.network_policies import UNREAD_GROUPS
from egress.kubernetes.pod_check import check_pod
from egress.kubernetes.pod_shapes import PodShape, holds_unread_pods
from egress.kubernetes.proxy_check import check_proxy
from egress.kubernetes.sidecar_check import check_sidecar, sidecar_parts
from egress.types import Severity

_SECURITY_LABEL = "pod-security.kubernetes.io/enforce"


@dataclass(frozen=True, slots=True)
class CheckedManifests:
    """What was read, and every finding in the order of the files."""

    objects: int
    sandboxes: int
    policies: int
    findings: tuple[ManifestFinding, ...]


@dataclass(frozen=True, slots=True)
class AcceptedRisk:
    """A code that somebody takes for known, everywhere or at objects of one name."""

    code: str
    name: str = ""

    def covers(self, finding: ManifestFinding) -> bool:
        title = finding.title.partition(" ")[2]
        return finding.code == self.code and self.name in {"", title, title.rpartition("/")[2]}


def check_manifests(
    texts: Iterable[ManifestText],
    namespace: str,
    labels: PodLabels,
    accepted: Iterable[AcceptedRisk] = (),
) -> CheckedManifests:
    """Check files of manifests together; `namespace` is for objects that name none."""
    files, risks = tuple(texts), tuple(accepted)
    objects = [found for text in files for found in objects_of(text, namespace)]
    manifests = manifest_set(objects[:MAX_OBJECTS], labels)
    # A text with a mistake has no objects, and then a fence may seem to be missing that is not.
    findings = [finding_of_text(each) for text in files for each in text.findings]
    if not findings:
        findings = list(_findings(manifests))
        if not manifests.sandboxes and not manifests.strangers:
            # An empty stream is what a renderer that failed leaves behind.
            findings.append(finding_of_file("manifest.empty", files[0].name if files else ""))
    if len(objects) > MAX_OBJECTS:
        found = objects[MAX_OBJECTS]
        findings.append(finding_at("manifest.size", found, found.node))
    shown = [
        replace(each, severity=Severity.NOTICE) if any(risk.covers(each) for risk in risks) else each
        for each in dict.fromkeys(findings)
    ]
    order = {text.name: number for number, text in enumerate(files)}
    shown.sort(key=lambda each: (order.get(each.place.file, 0), each.place, each.path, each.code))
    policies = sum(len(each) for each in manifests.policies.values())
    return CheckedManifests(len(objects), len(manifests.sandboxes), policies, tuple(shown))


def check_sandbox(manifests: ManifestSet, pod: PodShape) -> Iterator[ManifestFinding]:
    """Check one pod by itself, without the policies around it."""
    yield from check_pod(manifests, pod)
    parts = sidecar_parts(pod)
    if parts is not None:
        yield from check_sidecar(pod, parts)
        return
    for container in pod.containers:
        yield from check_container(pod, container)
    yield from check_gate(pod, needs_uid=manifests.tells_pods_apart)


def _findings(manifests: ManifestSet) -> Iterator[ManifestFinding]:
    yield from check_fence(manifests)
    for pod in manifests.sandboxes:
        yield from check_sandbox(manifests, pod)
    for proxy in manifests.proxies:
        yield from check_proxy(manifests, proxy)
    for stranger in manifests.strangers:
        yield finding_at("label.missing", stranger.source, stranger.template.at("metadata", "labels"))
    yield from check_agent_sandbox(manifests)
    for found in manifests.objects:
        yield from _check_object(manifests, found)
    yield from _duplicates(manifests)
    # Last, because reading is what finds a value of the wrong type.
    for found in manifests.objects:
        for fault in found.node.faults:
            node = ManifestNode(found.node.value, fault.path, [])
            yield finding_at("manifest.shape", found, node, f"{fault.expected} is expected")


def _duplicates(manifests: ManifestSet) -> Iterator[ManifestFinding]:
    """Find objects that replace one another when they are applied: both would be taken for true here."""
    seen: set[tuple[str, str]] = set()
    for found in manifests.objects:
        key = (found.group, found.title)
        # A name that is generated is another one each time.
        if key in seen and not found.node.at("metadata", "name").is_missing:
            yield finding_at("manifest.duplicate", found, found.node.at("metadata", "name"))
        seen.add(key)


def _check_object(manifests: ManifestSet, found: ManifestObject) -> Iterator[ManifestFinding]:
    if found.group in UNREAD_GROUPS and "Polic" in found.kind:
        yield finding_at("policy.unread", found, found.node)
    unread = holds_unread_pods(found)
    if unread is not None:
        yield finding_at("pod.unread", found, unread)
    if (found.group, found.kind) == ("", "Namespace"):
        level = found.node.at("metadata", "labels").text_map().get(_SECURITY_LABEL)
        # The lock needs a right that the level `restricted` refuses.
        holds = any(
            pod.source.namespace == found.name and sidecar_parts(pod) is None for pod in manifests.sandboxes
        )
        if holds and level != "restricted":
            yield finding_at("namespace.security", found, found.node.at("metadata", "labels"))
