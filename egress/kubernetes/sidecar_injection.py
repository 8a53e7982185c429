"""Put the proxy into the pod of a workload: the lock of the network, the certificate, the proxy, the gate.

Their order is that of the init containers. The lock comes first, so nothing talks before it. The proxy is an
init container that goes on running, so it is up before the gate asks for it, and ends after the workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from egress.errors import ContentError
from egress.kubernetes.gate_check import is_gate
from egress.kubernetes.manifest_node import ManifestNode
from egress.kubernetes.manifest_set import PodLabels
from egress.kubernetes.pod_injection import (
    GATE_NAME,
    TRUST_FOLDER,
    TRUST_VOLUME,
    InjectionPlan,
    gate_container,
    harden,
    lead_to_proxy,
    take_rights,
)
from egress.kubernetes.value_edits import Fields, containers, fill, is_absent, mapping, put, sequence
from egress.rules.language.document import Value

LOCK_NAME: Final = "egress-lock"
TRUST_NAME: Final = "egress-trust"
PROXY_NAME: Final = "egress-proxy"
PROXY_USER: Final = 10001
"""The user of the image of the proxy. The lock takes it for granted where its argument names no other."""
WORKLOAD_USER: Final = 1000
LOOPBACK: Final = "127.0.0.1"
TRUST_COMMAND: Final = ("/opt/egress/bin/python", "/opt/egress/share/trust.py")
_STATE_VOLUME, _RUN_VOLUME, _SCRATCH_VOLUME = "egress-state", "egress-run", "egress-scratch"
_RULES_VOLUME: Final = "egress-rules"
_SECRETS_FOLDER: Final = "/run/secrets"
_LOW_PORTS: Final = "net.ipv4.ip_unprivileged_port_start"


@dataclass(frozen=True, slots=True)
class SidecarPlan:
    """The parts that every pod with a proxy of its own gets."""

    blocked: tuple[str, ...]
    """Addresses that the gate dials and that must not answer."""
    image: str = "egress-proxy"
    rules: str = "egress-rules"
    """Name of the ConfigMap with the rules."""
    secrets: tuple[str, ...] = ()
    """Names of the Secrets that the proxy injects from."""
    own_addresses: tuple[str, ...] = ()
    """Networks of the cluster, which the proxy never dials."""
    variables: Mapping[str, str] = field(default_factory=dict)
    labels: PodLabels = field(default_factory=PodLabels)


def inject_sidecar(template: Fields, plan: SidecarPlan) -> None:
    """Complete a pod template in place."""
    spec = template.get("spec")
    if not isinstance(spec, dict):
        return
    take_rights(template, spec, plan.labels)
    others = [each for each in sequence(spec, "initContainers") if not _is_ours(each)]
    spec["initContainers"] = others
    for container in containers(spec):
        if container.get("name") in _OUR_NAMES:
            raise ContentError(
                f"another container has the name {container['name']}, which is a name of Egress", "rename it"
            )
        harden(container)
        lead_to_proxy(container, plan.variables)
        _give_user(spec, container)
    gate = gate_container(InjectionPlan(LOOPBACK, plan.blocked, plan.image))
    # As another user than the proxy: it proves what the workload may do, and not what the proxy may.
    mapping(gate, "securityContext")["runAsUser"] = WORKLOAD_USER
    spec["initContainers"] = [_lock(plan), _trust(plan), _proxy(plan), gate, *others]
    _put_sysctl(spec)
    for volume in _volumes(plan):
        put(sequence(spec, "volumes"), volume)


def _is_ours(container: Value) -> bool:
    """Report whether an init container is a part that an earlier run has put there."""
    if not isinstance(container, dict):
        return False
    return container.get("name") in _OUR_NAMES or is_gate(ManifestNode(container, (), []))


def _give_user(spec: Fields, container: Fields) -> None:
    """Give a container a user that is not the proxy's: an image could bring that one."""
    if is_absent(mapping(spec, "securityContext").get("runAsUser")):
        fill(mapping(container, "securityContext"), "runAsUser", WORKLOAD_USER)


def _lock(plan: SidecarPlan) -> Fields:
    return {
        **_ours(LOCK_NAME, plan, ["net-lock", f"--proxy-user={PROXY_USER}"]),
        "securityContext": {
            "runAsUser": 0,
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]},
        },
    }


def _trust(plan: SidecarPlan) -> Fields:
    """Make the authority of this pod, and lay its certificate down for the workload."""
    words: list[Value] = ["/trust", TRUST_FOLDER, LOOPBACK]
    return {
        **_ours(TRUST_NAME, plan, words),
        "command": list(TRUST_COMMAND),
        "env": [_state_folder()],
        "securityContext": _proxy_context(),
        "volumeMounts": [
            {"name": _STATE_VOLUME, "mountPath": "/var/lib/egress"},
            {"name": TRUST_VOLUME, "mountPath": "/trust"},
        ],
    }


def _proxy(plan: SidecarPlan) -> Fields:
    words: list[Value] = [
        "serve",
        # The lock lets nobody else in: it is the network of this pod alone.
        "--network",
        f"--listen={LOOPBACK}:3128",
        f"--transparent={LOOPBACK}",
        f"--dns={LOOPBACK}:53",
        f"--dns-answer={LOOPBACK}",
        *(f"--own-address={network}" for network in plan.own_addresses),
    ]
    secrets: list[Value] = [
        {"name": _secret_volume(name), "mountPath": f"{_SECRETS_FOLDER}/{name}", "readOnly": True}
        for name in plan.secrets
    ]
    return {
        **_ours(PROXY_NAME, plan, words),
        "restartPolicy": "Always",
        "env": [_state_folder(), {"name": "EGRESS_RUNTIME_DIR", "value": "/run/egress/proxy"}],
        "startupProbe": {
            "exec": {"command": ["egress", "status"]},
            "periodSeconds": 1,
            "timeoutSeconds": 8,
            "failureThreshold": 60,
        },
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": _proxy_context(),
        "volumeMounts": [
            {"name": _RULES_VOLUME, "mountPath": "/etc/egress", "readOnly": True},
            {"name": _STATE_VOLUME, "mountPath": "/var/lib/egress"},
            {"name": _RUN_VOLUME, "mountPath": "/run/egress"},
            {"name": _SCRATCH_VOLUME, "mountPath": "/tmp"},  # noqa: S108 - a path in the container
            *secrets,
        ],
    }


def _ours(name: str, plan: SidecarPlan, words: list[Value]) -> Fields:
    return {
        "name": name,
        "image": plan.image,
        "imagePullPolicy": "IfNotPresent",
        "args": words,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {
            "requests": {"cpu": "50m", "memory": "64Mi"},
            "limits": {"cpu": "500m", "memory": "128Mi"},
        },
    }


def _proxy_context() -> Fields:
    return {
        "runAsUser": PROXY_USER,
        "runAsGroup": PROXY_USER,
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _state_folder() -> Fields:
    # Below the volume: a folder that the cluster makes is open to its group, and would be refused.
    return {"name": "EGRESS_STATE_DIR", "value": "/var/lib/egress/state"}


def _put_sysctl(spec: Fields) -> None:
    """Let the proxy open low ports without a right."""
    sysctls = sequence(mapping(spec, "securityContext"), "sysctls")
    put(sysctls, {"name": _LOW_PORTS, "value": "0"})


def _volumes(plan: SidecarPlan) -> list[Fields]:
    memory: Fields = {"medium": "Memory", "sizeLimit": "64Mi"}
    return [
        {"name": TRUST_VOLUME, "emptyDir": {}},
        {"name": _STATE_VOLUME, "emptyDir": {}},
        {"name": _RUN_VOLUME, "emptyDir": memory},
        {"name": _SCRATCH_VOLUME, "emptyDir": {}},
        {"name": _RULES_VOLUME, "configMap": {"name": plan.rules}},
        *(_secret(name) for name in plan.secrets),
    ]


def _secret(name: str) -> Fields:
    # 292 is 0444: the files belong to root, and the proxy alone mounts them.
    return {"name": _secret_volume(name), "secret": {"secretName": name, "defaultMode": 292}}


def _secret_volume(name: str) -> str:
    return f"egress-secret-{name}"


_OUR_NAMES: Final = frozenset({LOCK_NAME, TRUST_NAME, PROXY_NAME, GATE_NAME})
