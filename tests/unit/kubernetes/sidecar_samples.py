"""A pod whose proxy runs beside the workload, for tests to weaken."""

from __future__ import annotations

from typing import Any

from egress.kubernetes.sidecar_injection import SidecarPlan, inject_sidecar

PLAN = SidecarPlan(
    ("$(NODE_IP):10250", "1.1.1.1:853"),
    secrets=("egress-token",),
    own_addresses=("10.96.0.0/12",),
    variables={"HTTPS_PROXY": "http://127.0.0.1:3128"},
)


def injected(plan: SidecarPlan = PLAN, **spec: object) -> dict[str, Any]:
    """The object of a pod with one container, completed."""
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "agent", "namespace": "agents"},
        "spec": {"containers": [{"name": "agent", "image": "agent:1"}], **spec},
    }
    inject_sidecar(pod, plan)
    return pod


def part(pod: dict[str, Any], name: str) -> dict[str, Any]:
    """One container of a pod."""
    spec = pod["spec"]
    (found,) = [each for each in (*spec["initContainers"], *spec["containers"]) if each["name"] == name]
    assert isinstance(found, dict)
    return found
