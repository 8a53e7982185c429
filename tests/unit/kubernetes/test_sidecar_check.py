"""The wall of a pod that locks its own network is the user of a process: each way around it has a code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from egress.kubernetes.manifest_findings import FINDING_CODES
from egress.kubernetes.manifest_set import PodLabels
from egress.kubernetes.pod_shapes import pod_of
from egress.kubernetes.sidecar_check import own_volumes, sidecar_parts
from tests.unit.kubernetes.manifest_samples import as_set, codes, shipped
from tests.unit.kubernetes.sidecar_samples import injected, part

type Pod = dict[str, Any]
type Change = Callable[[Pod], object]


def on(name: str, **fields: object) -> Change:
    """Replace fields of one container."""
    return lambda pod: part(pod, name).update(fields)


def on_context(name: str, **fields: object) -> Change:
    return lambda pod: part(pod, name)["securityContext"].update(fields)


def moved(name: str, place: int) -> Change:
    """Give an init container another place among all."""

    def change(pod: Pod) -> None:
        found = part(pod, name)
        pod["spec"]["initContainers"].remove(found)
        pod["spec"]["initContainers"].insert(place, found)

    return change


def without(name: str) -> Change:
    return lambda pod: pod["spec"]["initContainers"].remove(part(pod, name))


def first(pod: Pod) -> None:
    pod["spec"]["initContainers"].insert(0, {**part(pod, "agent"), "name": "early"})


def mounted(name: str, **fields: object) -> Change:
    mount = {"name": name, "mountPath": "/mnt", **fields}
    return lambda pod: part(pod, "agent")["volumeMounts"].append(mount)


WEAKENED: list[tuple[str, Change]] = [
    ("sidecar.order", first),
    ("sidecar.order", moved("egress-lock", 1)),
    ("sidecar.order", moved("egress-gate", 1)),
    ("sidecar.order", lambda pod: pod["spec"]["initContainers"].append(part(pod, "egress-lock"))),
    ("sidecar.lock", on_context("egress-lock", runAsUser=1000)),
    ("sidecar.lock", on_context("egress-lock", privileged=True)),
    ("sidecar.lock", on_context("egress-lock", capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]})),
    ("sidecar.lock", on("egress-lock", args=["net-lock", "--help"])),
    ("sidecar.lock", on("egress-lock", env=[{"name": "PYTHONPATH", "value": "/workspace"}])),
    ("sidecar.lock", on("egress-lock", volumeMounts=[{"name": "workspace", "mountPath": "/opt"}])),
    ("sidecar.lock", on("egress-lock", restartPolicy="Always")),
    ("sidecar.proxy", without("egress-proxy")),
    ("sidecar.proxy", lambda pod: part(pod, "egress-proxy").pop("restartPolicy")),
    ("sidecar.proxy", lambda pod: part(pod, "egress-proxy").pop("startupProbe")),
    ("sidecar.proxy", on_context("egress-proxy", runAsUser=20001)),
    ("sidecar.proxy", on("egress-lock", args=["net-lock", "--proxy-user=1000"])),
    ("sidecar.user", on_context("agent", runAsUser=10001)),
    ("sidecar.user", lambda pod: part(pod, "agent")["securityContext"].pop("runAsUser")),
    ("sidecar.user", lambda pod: part(pod, "egress-gate")["securityContext"].pop("runAsUser")),
    ("sidecar.user", on("egress-lock", args=["net-lock", "--proxy-user=1000"])),
    ("sidecar.mounts", mounted("egress-state")),
    ("sidecar.mounts", mounted("egress-secret-egress-token", readOnly=True)),
    ("sidecar.mounts", mounted("egress-trust")),
    ("sidecar.processes", lambda pod: pod["spec"].update(shareProcessNamespace=True)),
    ("container.root", on_context("agent", runAsUser=0)),
    ("container.escalation", on_context("agent", allowPrivilegeEscalation=True)),
    ("container.capabilities", on_context("agent", capabilities={"drop": ["ALL"], "add": ["SETUID"]})),
    ("container.capabilities", on_context("egress-proxy", capabilities={})),
    ("gate.missing", without("egress-gate")),
    ("gate.blocked", on("egress-gate", args=["gate", "--blocked=1.1.1.1:443", "--proxy=127.0.0.1:3128"])),
    ("pod.host-network", lambda pod: pod["spec"].update(hostNetwork=True)),
    ("pod.token", lambda pod: pod["spec"].update(automountServiceAccountToken=True)),
    (
        "pod.secret",
        lambda pod: pod["spec"]["volumes"].append({"name": "more", "secret": {"secretName": "other"}}),
    ),
]


def test_a_pod_as_it_is_injected_has_no_finding_and_needs_no_policy() -> None:
    assert codes([injected()]) == set()
    assert codes([injected(securityContext={"runAsUser": 4242})]) == set()


@pytest.mark.parametrize(
    ("code", "change"), WEAKENED, ids=[f"{code}-{number}" for number, (code, _) in enumerate(WEAKENED)]
)
def test_a_weakness_is_named_by_its_code(code: str, change: Change) -> None:
    pod = injected()
    change(pod)
    assert code in codes([pod])


def test_every_code_of_a_sidecar_has_a_weakness_that_shows_it() -> None:
    wanted = {code for code in FINDING_CODES if code.startswith("sidecar.")}
    assert wanted <= {code for code, _ in WEAKENED}


def test_a_sidecar_beside_a_gateway_changes_nothing_for_the_other_pods() -> None:
    assert codes([*shipped(), injected()]) == codes(shipped()) == set()


def test_a_namespace_without_the_restricted_level_is_no_finding_for_it() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "agents"}}
    assert codes([namespace, injected()]) == set()


def test_the_volumes_of_the_proxy_are_all_but_the_certificate() -> None:
    (found,) = as_set([injected()], PodLabels()).sandboxes
    parts = sidecar_parts(found)
    assert parts is not None
    assert own_volumes(parts) == {
        "egress-state",
        "egress-run",
        "egress-scratch",
        "egress-rules",
        "egress-secret-egress-token",
    }


def test_a_pod_without_a_lock_is_no_sidecar() -> None:
    pods = [pod_of(found) for found in as_set(shipped()).objects]
    assert all(sidecar_parts(pod) is None for pod in pods if pod)
