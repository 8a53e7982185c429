"""The pods of the proxy: who reaches them, and what they reach."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network

from egress.kubernetes.gate_check import runs
from egress.kubernetes.label_selector import Match, requires
from egress.kubernetes.manifest_findings import ManifestFinding, finding_at
from egress.kubernetes.manifest_node import ManifestNode
from egress.kubernetes.manifest_set import PROXY_PORTS, ManifestSet
from egress.kubernetes.network_policies import PodPolicy
from egress.kubernetes.pod_shapes import PodShape

type Network = IPv4Network | IPv6Network

_NEAR_RANGES = tuple(
    ip_network(text)
    for text in (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "fc00::/7",
        "fe80::/10",
    )
)


def check_proxy(manifests: ManifestSet, proxy: PodShape) -> Iterator[ManifestFinding]:
    """Check the policies around a proxy: `serve --network` serves whoever reaches it."""
    if not any(runs(container)[:2] == ("egress", "serve") for container in proxy.containers):
        yield finding_at("proxy.program", proxy.source, proxy.spec)
    policies = [
        (policy, match)
        for policy in manifests.policies.get(proxy.source.namespace, ())
        if (match := policy.selects(proxy, proxy.labels)) is not Match.NO
    ]
    sure = [policy for policy, match in policies if match is Match.YES]
    if not any(policy.isolates_ingress for policy in sure):
        yield finding_at("proxy.ingress", proxy.source, proxy.template.at("metadata"))
    if not any(policy.isolates_egress for policy in sure):
        yield finding_at("proxy.egress", proxy.source, proxy.template.at("metadata"))
    for policy, _ in policies:
        yield from _check_policy(manifests, policy)


def _check_policy(manifests: ManifestSet, policy: PodPolicy) -> Iterator[ManifestFinding]:
    for rule in policy.ingress:
        peers = rule.at("from").items()
        admits_others = not peers or any(not _is_sandbox_peer(manifests, peer) for peer in peers)
        if admits_others and _opens_proxy_ports(rule):
            yield finding_at("proxy.ingress", policy.source, rule)
    for rule in policy.egress:
        peers = rule.at("to").items()
        if not peers or any(_reaches_near(peer.at("ipBlock")) for peer in peers):
            yield finding_at("proxy.egress", policy.source, rule)


def _is_sandbox_peer(manifests: ManifestSet, peer: ManifestNode) -> bool:
    is_own_namespace = peer.at("ipBlock").is_missing and peer.at("namespaceSelector").is_missing
    return is_own_namespace and requires(peer.at("podSelector"), *manifests.labels.sandbox)


def _opens_proxy_ports(rule: ManifestNode) -> bool:
    """Report whether a rule opens a port at which the proxy serves sandboxes."""
    ports = rule.at("ports").items()
    served = {number for _, number in PROXY_PORTS}
    # A name or a range may stand for any of them.
    return not ports or any(
        port.at("port").value in served
        or isinstance(port.at("port").value, str)
        or not port.at("endPort").is_missing
        for port in ports
    )


def _reaches_near(block: ManifestNode) -> bool:
    """Report whether a block of addresses holds a whole private range that it does not except."""
    if block.is_missing:
        return False
    network = _network(block.at("cidr").text())
    exceptions = [_network(text) for text in block.at("except").texts()]
    if network is None or None in exceptions:
        return True
    return any(
        _holds(network, near) and not any(other and _holds(other, near) for other in exceptions)
        for near in _NEAR_RANGES
    )


def _network(text: str) -> Network | None:
    try:
        return ip_network(text)
    except ValueError:
        return None


def _holds(outer: Network, inner: Network) -> bool:
    if isinstance(outer, IPv4Network):
        return isinstance(inner, IPv4Network) and inner.subnet_of(outer)
    return isinstance(inner, IPv6Network) and inner.subnet_of(outer)
