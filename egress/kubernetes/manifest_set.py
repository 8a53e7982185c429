"""All objects of one check together, with the pods sorted by their part: sandbox, proxy, or neither."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from egress.kubernetes.authority_job import is_authority_job
from egress.kubernetes.gate_check import runs
from egress.kubernetes.label_selector import requires
from egress.kubernetes.manifest_node import ManifestNode
from egress.kubernetes.manifest_objects import ManifestObject
from egress.kubernetes.network_policies import PodPolicy, policies_of
from egress.kubernetes.pod_shapes import SANDBOX_LABEL, Label, PodShape, pod_of

PROXY_LABEL: Final[Label] = ("app", "egress-proxy")
PROXY_PORTS: Final = (("TCP", 3128), ("TCP", 443), ("TCP", 80), ("UDP", 53), ("TCP", 53))
"""The ports at which the proxy serves sandboxes: itself, transparent TLS and HTTP, and names."""
_NAMESPACE_KEY: Final = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class PodLabels:
    """The labels that tell sandboxes and proxies."""

    sandbox: Label = SANDBOX_LABEL
    proxy: Label = PROXY_LABEL


@dataclass(frozen=True, slots=True)
class ManifestSet:
    """The objects of all files."""

    objects: tuple[ManifestObject, ...]
    sandboxes: tuple[PodShape, ...]
    proxies: tuple[PodShape, ...]
    strangers: tuple[PodShape, ...]
    """Pods with neither label that are not the job of the authority."""
    policies: dict[str, tuple[PodPolicy, ...]]
    """By namespace."""
    labels: PodLabels

    def selects_the_proxy_alone(self, selector: ManifestNode) -> bool:
        """Report whether a pod selector selects pods with the label of the proxy and no others."""
        return requires(selector, *self.labels.proxy)

    def is_proxy_namespace(self, selector: ManifestNode, own: str) -> bool:
        """Report whether a namespace selector names one namespace: this one, or one that has a proxy."""
        names = {own, *(pod.source.namespace for pod in self.proxies)}
        return any(name and requires(selector, _NAMESPACE_KEY, name) for name in names)

    @property
    def tells_pods_apart(self) -> bool:
        """Whether a proxy knows sandboxes by their pods, so that each gate has to prove its own."""
        return any(
            words[:2] == ("egress", "serve") and "--kubernetes" in words
            for proxy in self.proxies
            for words in map(runs, proxy.containers)
        )

    def proxy_addresses(self, namespace: str) -> set[str]:
        """Return the addresses of services in front of the proxy; empty if none is written down."""
        key, value = self.labels.proxy
        services = [
            found.node.at("spec")
            for found in self.objects
            if (found.group, found.kind, found.namespace) == ("", "Service", namespace)
        ]
        fronts = [spec for spec in services if spec.at("selector").text_map().get(key) == value]
        addresses = {spec.at("clusterIP").text() for spec in fronts}
        addresses |= {each for spec in fronts for each in spec.at("clusterIPs").texts()}
        return addresses - {"", "None"}


def manifest_set(objects: Iterable[ManifestObject], labels: PodLabels) -> ManifestSet:
    """Sort the objects. The pods of agent-sandbox are sandboxes whatever their labels say."""
    known = tuple(objects)
    pods = [pod for pod in map(pod_of, known) if pod is not None]
    sandboxes: list[PodShape] = []
    others: list[PodShape] = []
    for pod in pods:
        is_sandbox = pod.is_agent_sandbox or has_label(pod.labels, labels.sandbox)
        (sandboxes if is_sandbox else others).append(pod)
    policies: dict[str, list[PodPolicy]] = {}
    for policy in policies_of(known):
        policies.setdefault(policy.source.namespace, []).append(policy)
    return ManifestSet(
        known,
        tuple(sandboxes),
        tuple(pod for pod in others if has_label(pod.labels, labels.proxy)),
        tuple(pod for pod in others if not (has_label(pod.labels, labels.proxy) or is_authority_job(pod))),
        {namespace: tuple(each) for namespace, each in policies.items()},
        labels,
    )


def has_label(labels: dict[str, str], wanted: Label) -> bool:
    """Report whether a pod has a label with this value."""
    key, value = wanted
    return labels.get(key) == value
