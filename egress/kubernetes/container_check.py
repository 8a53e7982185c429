"""The containers of a sandbox: no rights, no secrets, and a request beside a limit of the processor."""

from __future__ import annotations

from collections.abc import Iterator

from egress.kubernetes.manifest_findings import ManifestFinding, finding_at
from egress.kubernetes.manifest_node import ManifestNode
from egress.kubernetes.manifest_objects import ManifestObject
from egress.kubernetes.pod_shapes import PodShape
from egress.rules.language.credential_guess import looks_like_credential

_SECCOMP_TYPES = frozenset({"RuntimeDefault", "Localhost"})


def check_container(pod: PodShape, container: ManifestNode) -> Iterator[ManifestFinding]:
    """Check one container; what it does not say itself, the security context of the pod says."""
    source, own = pod.source, container.at("securityContext")
    of_pod = pod.spec.at("securityContext")
    is_windows_host = (
        own.at("windowsOptions", "hostProcess").flag() or of_pod.at("windowsOptions", "hostProcess").flag()
    )
    if _is_on(own.at("privileged")) or is_windows_host:
        yield finding_at("container.privileged", source, own.at("privileged"))
    if own.at("allowPrivilegeEscalation").flag() is not False:
        yield finding_at("container.escalation", source, own.at("allowPrivilegeEscalation"))
    capabilities = own.at("capabilities")
    if "ALL" not in capabilities.at("drop").texts() or capabilities.at("add").items():
        yield finding_at("container.capabilities", source, capabilities)
    yield from _check_user(source, own, of_pod)
    if nearest(own, of_pod, "seccompProfile").at("type").text() not in _SECCOMP_TYPES:
        yield finding_at("container.seccomp", source, own.at("seccompProfile"))
    if own.at("procMount").text() not in {"", "Default"}:
        yield finding_at("container.proc", source, own.at("procMount"))
    yield from check_request(source, container)
    yield from check_variables(source, container)


def check_request(source: ManifestObject, container: ManifestNode) -> Iterator[ManifestFinding]:
    """Check that a limit of the processor has a request beside it."""
    resources = container.at("resources")
    if not resources.at("limits", "cpu").is_missing and resources.at("requests", "cpu").is_missing:
        yield finding_at("container.requests", source, resources.at("limits", "cpu"))


def check_variables(source: ManifestObject, holder: ManifestNode) -> Iterator[ManifestFinding]:
    """Check the variables of a container or of a claim. No value is ever quoted."""
    for variable in holder.at("env").items():
        if not variable.at("valueFrom", "secretKeyRef").is_missing:
            yield finding_at("container.secret", source, variable.at("valueFrom", "secretKeyRef"))
        value = variable.at("value")
        if isinstance(value.value, str) and looks_like_credential(value.value):
            yield finding_at("container.credential", source, value)
    for origin in holder.at("envFrom").items():
        if not origin.at("secretRef").is_missing:
            yield finding_at("container.secret", source, origin.at("secretRef"))


def _check_user(source: ManifestObject, own: ManifestNode, of_pod: ManifestNode) -> Iterator[ManifestFinding]:
    must_not = nearest(own, of_pod, "runAsNonRoot")
    user = nearest(own, of_pod, "runAsUser")
    if must_not.flag() is not True:
        yield finding_at("container.root", source, own.at("runAsNonRoot"))
    elif not user.is_missing and not user.number():
        yield finding_at("container.root", source, user)


def nearest(own: ManifestNode, of_pod: ManifestNode, field: str) -> ManifestNode:
    """Return a field of a container's security context, or that of its pod where it has none."""
    return of_pod.at(field) if own.at(field).is_missing else own.at(field)


def _is_on(node: ManifestNode) -> bool:
    """Report whether a flag is anything but absent or false."""
    return not node.is_missing and node.flag() is not False
