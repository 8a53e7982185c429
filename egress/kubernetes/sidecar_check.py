"""The pod whose proxy runs beside the workload: its wall is the user of a process, so users are what counts.

Three things make the wall: the lock is set before anything else runs, the proxy has a user of its own, and no
other container can become that user or reach the proxy's files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from egress.kubernetes.container_check import check_container, check_request, nearest
from egress.kubernetes.diverted_ports import DIVERTED_PORTS
from egress.kubernetes.gate_check import check_gate, is_gate, runs
from egress.kubernetes.manifest_findings import ManifestFinding, finding_at
from egress.kubernetes.manifest_node import ManifestNode
from egress.kubernetes.pod_injection import TRUST_VOLUME
from egress.kubernetes.pod_shapes import PodShape
from egress.kubernetes.sidecar_injection import PROXY_USER, TRUST_COMMAND

_USER_OPTION = "--proxy-user="


@dataclass(frozen=True, slots=True)
class SidecarParts:
    """The init containers of Egress in a pod, by the commands that they run."""

    locks: tuple[ManifestNode, ...]
    trusts: tuple[ManifestNode, ...]
    proxies: tuple[ManifestNode, ...]
    gates: tuple[ManifestNode, ...]

    @property
    def all(self) -> tuple[ManifestNode, ...]:
        """In the order in which they have to start."""
        return (*self.locks, *self.trusts, *self.proxies, *self.gates)


def sidecar_parts(pod: PodShape) -> SidecarParts | None:
    """Return the parts of a pod that locks its own network; None for any other pod."""
    found = pod.spec.at("initContainers").items()

    def running(command: str) -> tuple[ManifestNode, ...]:
        return tuple(each for each in found if runs(each)[:2] == ("egress", command))

    locks = running("net-lock")
    if not locks:
        return None
    trusts = tuple(each for each in found if each.at("command").texts() == TRUST_COMMAND)
    return SidecarParts(locks, trusts, running("serve"), tuple(filter(is_gate, found)))


def check_sidecar(pod: PodShape, parts: SidecarParts) -> Iterator[ManifestFinding]:
    """Check the containers of a pod that locks its own network."""
    # The gate counts as a part of the workload: it proves what that may do.
    exempt = {each.path for each in (*parts.trusts, *parts.proxies)}
    yield from _check_order(pod, parts)
    yield from _check_lock(pod, parts.locks[0])
    yield from _check_proxy(pod, parts)
    yield from check_gate(pod, leading=len(parts.all) - len(parts.gates), diverted=DIVERTED_PORTS)
    if not pod.spec.at("shareProcessNamespace").is_missing:
        yield finding_at("sidecar.processes", pod.source, pod.spec.at("shareProcessNamespace"))
    own = own_volumes(parts)
    for container in pod.containers:
        if container.path == parts.locks[0].path:
            yield from check_request(pod.source, container)
            continue
        yield from check_container(pod, container)
        if container.path not in exempt:
            yield from _check_workload(pod, container, own, _user_of_lock(parts.locks[0]))


def own_volumes(parts: SidecarParts) -> frozenset[str]:
    """Return the names of the volumes that the proxy mounts, but for the certificate."""
    mounts = [mount for each in (*parts.trusts, *parts.proxies) for mount in each.at("volumeMounts").items()]
    return frozenset(mount.at("name").text() for mount in mounts) - {TRUST_VOLUME}


def _check_order(pod: PodShape, parts: SidecarParts) -> Iterator[ManifestFinding]:
    found = [each.path for each in pod.spec.at("initContainers").items()]
    wanted = [each.path for each in parts.all]
    one_of_each = all(len(each) == 1 for each in (parts.locks, parts.proxies, parts.gates))
    if found[: len(wanted)] != wanted or not one_of_each:
        yield finding_at("sidecar.order", pod.source, parts.locks[0])


def _check_lock(pod: PodShape, lock: ManifestNode) -> Iterator[ManifestFinding]:
    """Check that the lock can be set, and that nothing of the pod changes what it sets."""
    context = lock.at("securityContext")
    arguments = runs(lock)[2:]
    is_sound = (
        context.at("runAsUser").number() == 0
        and context.at("runAsNonRoot").flag() is False
        and context.at("capabilities", "add").texts() == ("NET_ADMIN",)
        and context.at("capabilities", "drop").texts() == ("ALL",)
        and context.at("privileged").is_missing
        and context.at("allowPrivilegeEscalation").flag() is False
        and not any(
            lock.at(field).items() for field in ("env", "envFrom", "volumeMounts", "volumeDevices", "ports")
        )
        and lock.at("restartPolicy").is_missing
        and len(arguments) <= 1
        and all(word.startswith(_USER_OPTION) for word in arguments)
    )
    if not is_sound:
        yield finding_at("sidecar.lock", pod.source, lock)


def _check_proxy(pod: PodShape, parts: SidecarParts) -> Iterator[ManifestFinding]:
    """Check that the proxy lives as long as the pod, and that the lock means its user."""
    user = _user_of_lock(parts.locks[0])
    for proxy in parts.proxies[:1]:
        is_kept = proxy.at("restartPolicy").text() == "Always"
        if not is_kept or proxy.at("startupProbe").is_missing or _user_of(pod, proxy) != user:
            yield finding_at("sidecar.proxy", pod.source, proxy)
    if not parts.proxies:
        yield finding_at("sidecar.proxy", pod.source, pod.spec.at("initContainers"))


def _check_workload(
    pod: PodShape, container: ManifestNode, own: frozenset[str], proxy_user: int
) -> Iterator[ManifestFinding]:
    if _user_of(pod, container) in {None, proxy_user}:
        yield finding_at("sidecar.user", pod.source, container.at("securityContext", "runAsUser"))
    for mount in container.at("volumeMounts").items():
        name = mount.at("name").text()
        is_writable_trust = name == TRUST_VOLUME and mount.at("readOnly").flag() is not True
        if name in own or is_writable_trust:
            yield finding_at("sidecar.mounts", pod.source, mount)


def _user_of(pod: PodShape, container: ManifestNode) -> int | None:
    return nearest(container.at("securityContext"), pod.spec.at("securityContext"), "runAsUser").number()


def _user_of_lock(lock: ManifestNode) -> int:
    words = [word.removeprefix(_USER_OPTION) for word in runs(lock)[2:] if word.startswith(_USER_OPTION)]
    return int(words[0]) if words and words[0].isdigit() and len(words[0]) <= 10 else PROXY_USER
