"""The pod of a sandbox: nothing of its node, of its cluster or of the proxy is in it."""

from __future__ import annotations

from collections.abc import Iterator

from egress.kubernetes.gate_check import gate_arguments, is_gate, proxy_hosts
from egress.kubernetes.manifest_findings import ManifestFinding, finding_at
from egress.kubernetes.manifest_node import ManifestNode
from egress.kubernetes.manifest_set import ManifestSet, has_label
from egress.kubernetes.pod_shapes import PodShape
from egress.kubernetes.sidecar_check import own_volumes, sidecar_parts

_SECRET_DRIVER = "secrets-store.csi.k8s.io"
# Those that the level `restricted` of Pod Security allows, images, and hostPath, which has a code of its own.
_VOLUME_KINDS = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "hostPath",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)


def check_pod(manifests: ManifestSet, pod: PodShape) -> Iterator[ManifestFinding]:
    """Check the parts of a pod that are not those of one container."""
    source, spec = pod.source, pod.spec
    labels = pod.template.at("metadata", "labels")
    if has_label(pod.labels, manifests.labels.proxy):
        yield finding_at("label.proxy", source, labels)
    if not has_label(pod.labels, manifests.labels.sandbox):
        yield finding_at("label.missing", source, labels)
    yield from _check_host(pod)
    if spec.at("automountServiceAccountToken").flag() is not False:
        yield finding_at("pod.token", source, spec.at("automountServiceAccountToken"))
    if spec.at("enableServiceLinks").flag() is not False:
        yield finding_at("pod.service-links", source, spec.at("enableServiceLinks"))
    parts = sidecar_parts(pod)
    if parts is None:
        yield from _check_names(manifests, pod)
    own = own_volumes(parts) if parts else frozenset[str]()
    for volume in spec.at("volumes").items():
        if volume.at("name").text() not in own:
            yield from _check_volume(manifests, pod, volume)


def _check_host(pod: PodShape) -> Iterator[ManifestFinding]:
    """Check that nothing of the node is shared."""
    for field, code in (
        ("hostNetwork", "pod.host-network"),
        ("hostPID", "pod.host-pid"),
        ("hostIPC", "pod.host-ipc"),
    ):
        node = pod.spec.at(field)
        # Whatever is no clear `false` counts: the fault of its type is told beside.
        if not node.is_missing and node.flag() is not False:
            yield finding_at(code, pod.source, node)
    for container in pod.containers:
        for port in container.at("ports").items():
            if not port.at("hostPort").is_missing:
                yield finding_at("pod.host-port", pod.source, port.at("hostPort"))


def _check_names(manifests: ManifestSet, pod: PodShape) -> Iterator[ManifestFinding]:
    """Check that the proxy alone answers names."""
    servers = set(pod.spec.at("dnsConfig", "nameservers").texts())
    known = manifests.proxy_addresses(pod.source.namespace)
    for container in pod.spec.at("initContainers").items():
        if not known and is_gate(container):
            # The service may stand in another file; the gate proves that the proxy is at its addresses.
            known = proxy_hosts(gate_arguments(container) or ())
    if pod.spec.at("dnsPolicy").text() != "None":
        yield finding_at("pod.dns", pod.source, pod.spec.at("dnsPolicy"))
    elif not servers or (known and not servers <= known):
        yield finding_at("pod.dns", pod.source, pod.spec.at("dnsConfig", "nameservers"))


def _check_volume(manifests: ManifestSet, pod: PodShape, volume: ManifestNode) -> Iterator[ManifestFinding]:
    source = pod.source
    if not volume.at("hostPath").is_missing:
        yield finding_at("pod.host-path", source, volume.at("hostPath"))
    if not volume.at("secret").is_missing:
        yield finding_at("pod.secret", source, volume.at("secret"))
    if volume.at("csi", "driver").text() == _SECRET_DRIVER:
        yield finding_at("pod.secret", source, volume.at("csi"))
    for kind in sorted(volume.entries().keys() - _VOLUME_KINDS - {"name"}):
        yield finding_at("pod.volume", source, volume.at(kind))
    for item in volume.at("projected", "sources").items():
        for field, code in (
            ("secret", "pod.secret"),
            ("serviceAccountToken", "pod.token"),
            ("podCertificate", "pod.token"),
        ):
            if not item.at(field).is_missing:
                yield finding_at(code, source, item.at(field))
    claim = volume.at("persistentVolumeClaim", "claimName")
    if claim.text() and _is_claim_of_proxy(manifests, source.namespace, claim.text()):
        yield finding_at("pod.proxy-volume", source, claim)


def _is_claim_of_proxy(manifests: ManifestSet, namespace: str, claim: str) -> bool:
    for proxy in manifests.proxies:
        if proxy.source.namespace != namespace:
            continue
        volumes = proxy.spec.at("volumes").items()
        if any(volume.at("persistentVolumeClaim", "claimName").text() == claim for volume in volumes):
            return True
        # A stateful set names the claim of each replica: TEMPLATE-NAME-NUMBER.
        for template in proxy.source.node.at("spec", "volumeClaimTemplates").items():
            name = f"{template.at('metadata', 'name').text()}-{proxy.source.name}-"
            if claim.startswith(name) and claim.removeprefix(name).isdigit():
                return True
    return False
