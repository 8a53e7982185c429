"""The fence of each sandbox: what all policies that select its pod open together.

Policies of a pod are united, so one that opens the internet opens it, whatever the others shut. A rule is
therefore judged for itself: it may lead to the pods of the proxy and to nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

from egress.kubernetes.label_selector import Match
from egress.kubernetes.manifest_findings import ManifestFinding, finding_at
from egress.kubernetes.manifest_node import ManifestNode
from egress.kubernetes.manifest_set import PROXY_PORTS, ManifestSet
from egress.kubernetes.network_policies import PodPolicy
from egress.kubernetes.pod_shapes import PodShape
from egress.kubernetes.sidecar_check import sidecar_parts


def check_fence(manifests: ManifestSet) -> Iterator[ManifestFinding]:
    """Check that every sandbox is shut in, and each rule of the policies that select one."""
    selected: dict[int, tuple[PodPolicy, list[PodShape]]] = {}
    for pod in manifests.sandboxes:
        if sidecar_parts(pod) is not None:
            # Its own lock confines it, where no policy is in force.
            continue
        policies = manifests.policies.get(pod.source.namespace, ())
        matches = [(policy, policy.selects(pod, pod.labels)) for policy in policies]
        yield from _isolation(pod, [policy for policy, match in matches if match is Match.YES])
        # A policy that may select the pod opens it as far as anybody knows.
        for policy, match in matches:
            if match is not Match.NO:
                selected.setdefault(id(policy), (policy, []))[1].append(pod)
    for policy, pods in selected.values():
        yield from _judge_policy(manifests, policy, _names(pods))


def _isolation(pod: PodShape, policies: list[PodPolicy]) -> Iterator[ManifestFinding]:
    source, labels = pod.source, pod.template.at("metadata", "labels")
    if not any(policy.isolates_egress for policy in policies):
        yield finding_at("fence.none", source, pod.template.at("metadata"))
    elif not any(policy.isolates_egress and policy.selects_every_pod for policy in policies):
        yield finding_at("fence.label", source, labels)
    if not any(policy.isolates_ingress for policy in policies):
        yield finding_at("fence.ingress", source, pod.template.at("metadata"))


def _judge_policy(manifests: ManifestSet, policy: PodPolicy, pods: str) -> Iterator[ManifestFinding]:
    source = policy.source
    has_no_types = not policy.spec.at("policyTypes").texts() and not policy.of_template
    if has_no_types and not policy.isolates_egress:
        yield finding_at("policy.types", source, policy.spec, f"it selects {pods}")
    for rule in policy.egress:
        yield from judge_egress(manifests, policy, rule, f"for {pods}")
    for rule in policy.ingress:
        if not rule.at("from").items() or any(_is_anybody(peer) for peer in rule.at("from").items()):
            yield finding_at("policy.ingress", source, rule.at("from"), f"for {pods}")


def judge_egress(
    manifests: ManifestSet, policy: PodPolicy, rule: ManifestNode, pods: str
) -> Iterator[ManifestFinding]:
    """Judge one egress rule; it may lead to the proxy alone."""
    source, peers = policy.source, rule.at("to").items()
    if not peers:
        yield finding_at("policy.everywhere", source, rule, pods)
        return
    codes = [_fault_of_peer(manifests, source.namespace, peer) for peer in peers]
    for peer, code in zip(peers, codes, strict=True):
        # Port 53 alone is a name server, whoever answers there.
        if code and code != "policy.everywhere" and _is_dns_alone(rule):
            code = "policy.dns"  # noqa: PLW2901 - a narrower name for the same fault
        if code:
            yield finding_at(code, source, peer, f"{_describe(peer)}, {pods}")
    if not any(codes) and not _are_proxy_ports(rule):
        yield finding_at("policy.ports", source, rule.at("ports"), pods)


def _fault_of_peer(manifests: ManifestSet, namespace: str, peer: ManifestNode) -> str:
    """Return the code of what is wrong with a peer of an egress rule; empty if nothing is."""
    if not peer.at("ipBlock").is_missing:
        return "policy.address"
    namespaces, pods = peer.at("namespaceSelector"), peer.at("podSelector")
    if namespaces.is_missing and pods.is_missing:
        # Not valid, and an older API server may take it for everything.
        return "policy.everywhere"
    if not namespaces.is_missing and not manifests.is_proxy_namespace(namespaces, namespace):
        return "policy.namespace"
    if pods.is_missing or not manifests.selects_the_proxy_alone(pods):
        return "policy.pods"
    return ""


def _describe(peer: ManifestNode) -> str:
    block = peer.at("ipBlock")
    if block.is_missing:
        return "a selector"
    return block.at("cidr").text() + (" with exceptions" if block.at("except").items() else "")


def _is_dns_alone(rule: ManifestNode) -> bool:
    ports = rule.at("ports").items()
    return bool(ports) and all(_port_of(port) in {("TCP", 53), ("UDP", 53)} for port in ports)


def _are_proxy_ports(rule: ManifestNode) -> bool:
    ports = rule.at("ports").items()
    return bool(ports) and all(_port_of(port) in PROXY_PORTS or _is_named(port) for port in ports)


def _is_named(port: ManifestNode) -> bool:
    """Report whether a port is a name, which only a container of the selected pods gives a number."""
    return isinstance(port.at("port").value, str)


def _port_of(port: ManifestNode) -> tuple[str, int | None]:
    protocol = port.at("protocol").text() or "TCP"
    if not port.at("endPort").is_missing or _is_named(port):
        return protocol, None
    return protocol, port.at("port").number()


def _is_anybody(peer: ManifestNode) -> bool:
    cidr = peer.at("ipBlock", "cidr").text()
    return cidr.endswith("/0") or (
        peer.at("ipBlock").is_missing
        and not peer.at("namespaceSelector").is_missing
        and not peer.at("namespaceSelector").value
        and not peer.at("podSelector").value
    )


def _names(pods: list[PodShape]) -> str:
    first = pods[0].source.title
    return first if len(pods) == 1 else f"{first} and {len(pods) - 1} more"
