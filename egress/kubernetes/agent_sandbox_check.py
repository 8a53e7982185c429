"""agent-sandbox: its templates, pools and claims, and what its controllers make of them."""

from __future__ import annotations

from collections.abc import Iterator

from egress.kubernetes.container_check import check_variables
from egress.kubernetes.fence_check import judge_egress
from egress.kubernetes.label_selector import Match
from egress.kubernetes.manifest_findings import ManifestFinding, finding_at
from egress.kubernetes.manifest_objects import ManifestObject
from egress.kubernetes.manifest_set import ManifestSet
from egress.kubernetes.network_policies import has_default_policy
from egress.kubernetes.pod_shapes import EXTENSIONS_GROUP, PodShape


def check_agent_sandbox(manifests: ManifestSet) -> Iterator[ManifestFinding]:
    """Check the objects that are no pods."""
    for found in manifests.objects:
        if found.group != EXTENSIONS_GROUP:
            continue
        if found.kind == "SandboxTemplate":
            yield from _check_template(found)
        elif found.kind == "SandboxWarmPool":
            yield from _check_pool(manifests, found)
        elif found.kind == "SandboxClaim":
            yield from _check_claim(manifests, found)


def _check_template(found: ManifestObject) -> Iterator[ManifestFinding]:
    spec = found.node.at("spec")
    if has_default_policy(found):
        yield finding_at("template.open", found, spec.at("networkPolicy"))
    if spec.at("envVarsInjectionPolicy").text() not in {"", "Disallowed"}:
        yield finding_at("template.env", found, spec.at("envVarsInjectionPolicy"))


def _check_pool(manifests: ManifestSet, found: ManifestObject) -> Iterator[ManifestFinding]:
    spec = found.node.at("spec")
    if spec.at("updateStrategy", "type").text() != "Recreate":
        yield finding_at("pool.stale", found, spec.at("updateStrategy"))
    if _template_of_pool(manifests, found) is None:
        yield finding_at("pool.template", found, spec.at("sandboxTemplateRef"))


def _check_claim(manifests: ManifestSet, found: ManifestObject) -> Iterator[ManifestFinding]:
    """Check a claim: its variables, and the policies that its labels bring upon the pod."""
    yield from check_variables(found, found.node.at("spec"))
    pod = _template_of_claim(manifests, found)
    if pod is None:
        yield finding_at("claim.pool", found, found.node.at("spec"))
        return
    node = found.node.at("spec", "additionalPodMetadata", "labels")
    added = node.text_map()
    key, value = manifests.labels.proxy
    if added.get(key) == value:
        yield finding_at("label.proxy", found, node)
    labels = {**pod.labels, **added}
    for policy in manifests.policies.get(pod.source.namespace, ()):
        # Policies that select the template without the claim's labels were judged there.
        if policy.selects(pod, pod.labels) is Match.NO and policy.selects(pod, labels) is not Match.NO:
            for rule in policy.egress:
                yield from judge_egress(manifests, policy, rule, f"for {found.title}")


def _template_of_claim(manifests: ManifestSet, found: ManifestObject) -> PodShape | None:
    spec = found.node.at("spec")
    # Up to v1alpha1 a claim named its template itself.
    if name := spec.at("sandboxTemplateRef", "name").text():
        return _template(manifests, found.namespace, name)
    pool = spec.at("warmPoolRef", "name").text()
    for each in manifests.objects:
        key = (each.group, each.kind, each.namespace, each.name)
        if key == (EXTENSIONS_GROUP, "SandboxWarmPool", found.namespace, pool):
            return _template_of_pool(manifests, each)
    return None


def _template_of_pool(manifests: ManifestSet, pool: ManifestObject) -> PodShape | None:
    name = pool.node.at("spec", "sandboxTemplateRef", "name").text()
    return _template(manifests, pool.namespace, name)


def _template(manifests: ManifestSet, namespace: str, name: str) -> PodShape | None:
    for pod in manifests.sandboxes:
        if (pod.source.kind, pod.source.namespace, pod.source.name) == ("SandboxTemplate", namespace, name):
            return pod
    return None
