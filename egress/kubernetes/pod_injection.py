"""Complete the pod of a sandbox: the gate, the proxy's address and certificate, and no rights.

Only values that are missing are hardened. A value that somebody wrote is left as it is, even if it is weak:
to turn it around would break the workload silently, and the check names it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from egress.errors import ContentError
from egress.kubernetes.gate_check import gate_arguments, is_gate, proxy_hosts
from egress.kubernetes.manifest_node import ManifestNode
from egress.kubernetes.manifest_set import PodLabels
from egress.kubernetes.value_edits import Fields, containers, fill, is_absent, items, mapping, put, sequence
from egress.rules.language.document import Value

GATE_NAME: Final = "egress-gate"
TRUST_VOLUME: Final = "egress-trust"
TRUST_FOLDER: Final = "/etc/egress-trust"
CPU_REQUEST: Final = "100m"
# These answer in every cluster without a fence: API server, kubelet, metadata, and an address outside.
BLOCKED_ADDRESSES: Final = (
    "$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)",
    "$(NODE_IP):10250",
    "169.254.169.254:80",
    "1.1.1.1:443",
)
_MILLICPUS: Final = 100
_CPU = re.compile(r"(?P<number>[0-9]{1,9}(?:\.[0-9]{1,9})?)(?P<milli>m?)")


@dataclass(frozen=True, slots=True)
class InjectionPlan:
    """The parts that every sandbox of one proxy gets."""

    proxy: str
    """IP address of the proxy's service."""
    blocked: tuple[str, ...]
    """Addresses that the gate dials and that must not answer."""
    image: str = "egress-proxy"
    trust: str = "egress-trust"
    """Name of the ConfigMap with the certificate and the bundle."""
    variables: Mapping[str, str] = field(default_factory=dict)
    tells_pods_apart: bool = False
    """Whether the gate asks the proxy for its pod, which only `serve --kubernetes` knows."""
    labels: PodLabels = field(default_factory=PodLabels)

    @property
    def proxy_host(self) -> str:
        """The address as it stands before a port."""
        return f"[{self.proxy}]" if ":" in self.proxy else self.proxy


def inject_pod(template: Fields, plan: InjectionPlan, *, keeps_gate: bool) -> None:
    """Complete a pod template in place; `keeps_gate` leaves a gate that is fine as it is."""
    spec = template.get("spec")
    if not isinstance(spec, dict):
        return
    take_rights(template, spec, plan.labels)
    spec["dnsPolicy"] = "None"
    names = mapping(spec, "dnsConfig")
    names["nameservers"] = [plan.proxy]
    # Search domains are names of the cluster, which the proxy does not answer.
    names.pop("searches", None)
    if not keeps_gate:
        _place_gate(spec, plan)
    for container in containers(spec):
        harden(container)
        if not is_gate(ManifestNode(container, (), [])):
            lead_to_proxy(container, plan.variables)
    mounts = [mount for container in containers(spec) for mount in items(container, "volumeMounts")]
    if any(mount.get("name") == TRUST_VOLUME for mount in mounts):
        put(sequence(spec, "volumes"), {"name": TRUST_VOLUME, "configMap": {"name": plan.trust}})


def take_rights(template: Fields, spec: Fields, labels: PodLabels) -> None:
    """Give a pod the label of a sandbox, and take what it needs no right for."""
    key, value = labels.sandbox
    mapping(mapping(template, "metadata"), "labels")[key] = value
    spec |= {"automountServiceAccountToken": False, "enableServiceLinks": False}
    context = mapping(spec, "securityContext")
    fill(context, "runAsNonRoot", True)  # noqa: FBT003 - a value of the manifest
    fill(context, "seccompProfile", {"type": "RuntimeDefault"})


def keeps_proxy(gate: ManifestNode, plan: InjectionPlan) -> bool:
    """Report whether a gate asks for the proxy of this plan."""
    return plan.proxy in proxy_hosts(gate_arguments(gate) or ())


def gate_container(plan: InjectionPlan) -> Fields:
    """Make the init container that holds a pod back until the fence is proved."""
    ports = (3128, 443, 53)
    asked = [f"--proxy={plan.proxy_host}:{port}" for port in ports]
    env: list[Value] = [_field_variable("NODE_IP", "status.hostIP")]
    if plan.tells_pods_apart:
        asked = [f"--gateway={plan.proxy_host}:{ports[0]}", "--uid=$(POD_UID)"]
        env.append(_field_variable("POD_UID", "metadata.uid"))
    arguments: list[Value] = ["gate", *(f"--blocked={address}" for address in plan.blocked), *asked]
    return {
        "name": GATE_NAME,
        "image": plan.image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments,
        "env": env,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {
            "requests": {"cpu": "50m", "memory": "64Mi"},
            "limits": {"cpu": "500m", "memory": "128Mi"},
        },
    }


def _field_variable(name: str, path: str) -> Value:
    """Make a variable that the kubelet fills in."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _place_gate(spec: Fields, plan: InjectionPlan) -> None:
    """Put the gate before every other init container, instead of any that is there."""
    others = [item for item in sequence(spec, "initContainers") if not is_gate(ManifestNode(item, (), []))]
    spec["initContainers"] = [gate_container(plan), *others]
    names = [container.get("name") for container in containers(spec)]
    if names.count(GATE_NAME) > 1:
        raise ContentError(
            f"another container has the name {GATE_NAME}, which is the name of the gate", "rename it"
        )


def harden(container: Fields) -> None:
    """Take the rights of a container that nobody gave it, and request less than its limit."""
    context = mapping(container, "securityContext")
    fill(context, "allowPrivilegeEscalation", False)  # noqa: FBT003 - a value of the manifest
    dropped = sequence(mapping(context, "capabilities"), "drop")
    if "ALL" not in dropped:
        dropped.append("ALL")
    resources = container.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if isinstance(resources, dict) and isinstance(limits, dict) and not is_absent(limits.get("cpu")):
        fill(mapping(resources, "requests"), "cpu", _request_for(limits["cpu"]))


def lead_to_proxy(container: Fields, variables: Mapping[str, str]) -> None:
    """Give a container the variables of the proxy and the folder with its certificate."""
    for name, value in variables.items():
        put(sequence(container, "env"), {"name": name, "value": value})
    mounts = sequence(container, "volumeMounts")
    # A folder is mounted once: somebody may have mounted the certificate there under another name.
    if not any(isinstance(mount, dict) and mount.get("mountPath") == TRUST_FOLDER for mount in mounts):
        put(mounts, {"name": TRUST_VOLUME, "mountPath": TRUST_FOLDER, "readOnly": True})


def _request_for(limit: Value) -> Value:
    """Return a small request that is not above the limit."""
    found = _CPU.fullmatch(str(limit))
    if found is None:
        return limit
    millicpus = float(found["number"]) * (1 if found["milli"] else 1000)
    return CPU_REQUEST if millicpus >= _MILLICPUS else limit
