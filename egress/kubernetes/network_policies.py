"""Network policies, as the cluster evaluates them: those that select a pod are united.

agent-sandbox writes a policy for each of its templates. That policy is derived here as its controller would
write it, because it is united with all others and stands in no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from egress.kubernetes.label_selector import Match, is_everything, match_labels
from egress.kubernetes.manifest_node import ManifestNode
from egress.kubernetes.manifest_objects import ManifestObject
from egress.kubernetes.pod_shapes import EXTENSIONS_GROUP, PodShape

UNREAD_GROUPS: Final = frozenset(
    {
        "cilium.io",
        "crd.antrea.io",
        "crd.projectcalico.org",
        "networking.k8s.aws",
        "policy.networking.k8s.io",
        "projectcalico.org",
    }
)
"""API groups whose policies decide beside NetworkPolicy."""


@dataclass(frozen=True, slots=True)
class PodPolicy:
    """A policy, or what the controller of agent-sandbox makes of a template."""

    source: ManifestObject
    spec: ManifestNode
    of_template: bool
    isolates_egress: bool
    isolates_ingress: bool

    def selects(self, pod: PodShape, labels: dict[str, str]) -> Match:
        """Tell whether this policy selects a pod with these labels."""
        if self.source.namespace != pod.source.namespace:
            return Match.NO
        if self.of_template:
            # By a label that the controller gives to the pods of this one template.
            is_same = (pod.source.kind, pod.source.name) == (self.source.kind, self.source.name)
            return Match.YES if is_same else Match.NO
        return match_labels(self.spec.at("podSelector"), labels)

    @property
    def selects_every_pod(self) -> bool:
        return not self.of_template and is_everything(self.spec.at("podSelector"))

    @property
    def egress(self) -> list[ManifestNode]:
        """The rules of this policy that open something on the way out."""
        return self.spec.at("egress").items() if self.isolates_egress else []

    @property
    def ingress(self) -> list[ManifestNode]:
        return self.spec.at("ingress").items() if self.isolates_ingress else []


def policies_of(objects: Iterable[ManifestObject]) -> Iterator[PodPolicy]:
    """Return the policies that are written, and those that become of templates."""
    for found in objects:
        spec = found.node.at("spec")
        if (found.group, found.kind) == ("networking.k8s.io", "NetworkPolicy"):
            types = spec.at("policyTypes").texts()
            # Without `policyTypes` the API server derives them: egress only if there is a rule for it.
            has_egress = "Egress" in types if types else bool(spec.at("egress").items())
            yield PodPolicy(
                found,
                spec,
                of_template=False,
                isolates_egress=has_egress,
                isolates_ingress="Ingress" in types or not types,
            )
        elif (found.group, found.kind) == (EXTENSIONS_GROUP, "SandboxTemplate") and is_managed(spec):
            rules = spec.at("networkPolicy")
            yield PodPolicy(found, rules, of_template=True, isolates_egress=True, isolates_ingress=True)


def is_managed(spec: ManifestNode) -> bool:
    """Report whether the controller of agent-sandbox writes a policy for this template."""
    return spec.at("networkPolicyManagement").text() != "Unmanaged"


def has_default_policy(found: ManifestObject) -> bool:
    """Report whether the controller writes its own default, which opens every public address."""
    spec = found.node.at("spec")
    is_template = (found.group, found.kind) == (EXTENSIONS_GROUP, "SandboxTemplate")
    return is_template and is_managed(spec) and spec.at("networkPolicy").is_missing
