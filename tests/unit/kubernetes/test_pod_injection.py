"""The parts of a sandbox are added to a pod, and nothing that somebody wrote is turned around."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from egress.errors import ContentError
from egress.kubernetes.manifest_node import ManifestNode
from egress.kubernetes.pod_injection import GATE_NAME, InjectionPlan, gate_container, inject_pod, keeps_proxy
from egress.rules.language.document import MissingValue

PLAN = InjectionPlan(
    "10.96.0.92", ("$(KUBERNETES_SERVICE_HOST):443", "1.1.1.1:443"), variables={"A": "proxy"}
)


def injected(spec: dict[str, Any], **metadata: object) -> dict[str, Any]:
    template: dict[str, Any] = {"metadata": metadata, "spec": deepcopy(spec)}
    inject_pod(template, PLAN, keeps_gate=False)
    return template


def container(**fields: object) -> dict[str, Any]:
    (found,) = injected({"containers": [{"name": "c", **fields}]})["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def test_a_bare_pod_gets_everything() -> None:
    template = injected({"containers": [{"name": "c"}]}, labels={"app": "a"})
    spec = template["spec"]
    assert template["metadata"]["labels"] == {"app": "a", "egress": "workload"}
    assert spec["dnsConfig"] == {"nameservers": ["10.96.0.92"]}
    assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert [each["name"] for each in spec["initContainers"]] == [GATE_NAME]
    assert spec["volumes"] == [{"name": "egress-trust", "configMap": {"name": "egress-trust"}}]
    assert spec["containers"][0] == {
        "name": "c",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "env": [{"name": "A", "value": "proxy"}],
        "volumeMounts": [{"name": "egress-trust", "mountPath": "/etc/egress-trust", "readOnly": True}],
    }


def test_the_gate_is_first_and_replaces_another() -> None:
    old = {"name": "old", "args": ["gate"]}
    spec = injected({"initContainers": [{"name": "setup"}, old], "containers": []})["spec"]
    assert [each["name"] for each in spec["initContainers"]] == [GATE_NAME, "setup"]
    assert "volumeMounts" not in spec["initContainers"][0]
    assert spec["initContainers"][1]["env"] == [{"name": "A", "value": "proxy"}]


def test_a_container_with_the_name_of_the_gate_is_an_error() -> None:
    with pytest.raises(ContentError, match=GATE_NAME):
        injected({"containers": [{"name": GATE_NAME}]})


def test_a_gate_that_is_kept_is_hardened_and_gets_no_volume() -> None:
    template: dict[str, Any] = {"spec": {"initContainers": [{"name": "g", "args": ["gate"]}]}}
    inject_pod(template, PLAN, keeps_gate=True)
    (gate,) = template["spec"]["initContainers"]
    assert gate == {
        "name": "g",
        "args": ["gate"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def test_values_that_somebody_wrote_stay_and_null_is_none() -> None:
    context = {"privileged": True, "allowPrivilegeEscalation": MissingValue(), "capabilities": {"add": ["X"]}}
    assert container(securityContext=context)["securityContext"] == {
        "privileged": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["X"], "drop": ["ALL"]},
    }
    spec = injected({"securityContext": {"runAsNonRoot": False}, "hostNetwork": True})["spec"]
    assert (spec["securityContext"]["runAsNonRoot"], spec["hostNetwork"]) == (False, True)


def test_a_variable_of_the_proxy_is_replaced_in_its_place() -> None:
    env = [{"name": "A", "valueFrom": {"fieldRef": {}}}, {"name": "B", "value": "b"}]
    expected = [{"name": "A", "value": "proxy"}, {"name": "B", "value": "b"}]
    assert container(env=env)["env"] == expected
    # Of two with one name Kubernetes takes the last.
    assert container(env=[*env, {"name": "A", "value": "other"}])["env"] == expected


def test_a_certificate_that_is_mounted_already_is_not_mounted_twice() -> None:
    mounts = [{"name": "own", "mountPath": "/etc/egress-trust"}]
    spec = injected({"containers": [{"name": "c", "volumeMounts": mounts}]})["spec"]
    assert spec["containers"][0]["volumeMounts"] == mounts
    assert "volumes" not in spec


@pytest.mark.parametrize(
    ("limit", "request_"),
    [("2", "100m"), (3, "100m"), (0.5, "100m"), ("50m", "50m"), ("100m", "100m"), (0.05, 0.05), ("x", "x")],
)
def test_a_limit_of_the_processor_gets_a_small_request_beside_it(limit: object, request_: object) -> None:
    assert container(resources={"limits": {"cpu": limit}})["resources"]["requests"] == {"cpu": request_}


def test_a_request_that_is_there_stays_and_no_limit_needs_none() -> None:
    resources = {"limits": {"cpu": 2}, "requests": {"cpu": 1}}
    assert container(resources=resources)["resources"] == resources
    assert container(resources={"limits": {"memory": "1Gi"}})["resources"] == {"limits": {"memory": "1Gi"}}
    assert "resources" not in container()


def test_search_domains_go_and_options_stay() -> None:
    names = {"nameservers": ["8.8.8.8"], "searches": ["a"], "options": [{"name": "x"}]}
    spec = injected({"dnsConfig": names})["spec"]
    assert spec["dnsConfig"] == {"nameservers": ["10.96.0.92"], "options": [{"name": "x"}]}


@pytest.mark.parametrize("fields", [{"env": "x"}, {"securityContext": []}, {"volumeMounts": {}}])
def test_a_value_of_a_wrong_type_is_an_error(fields: dict[str, Any]) -> None:
    with pytest.raises(ContentError):
        container(**fields)


def test_a_pod_without_a_spec_is_left() -> None:
    template: dict[str, Any] = {"metadata": {}}
    inject_pod(template, PLAN, keeps_gate=False)
    assert template == {"metadata": {}}


def test_the_gate_asks_for_the_proxy_of_its_plan() -> None:
    plan = InjectionPlan("fd00::92", ())
    made = gate_container(plan)
    assert made["args"] == [
        "gate",
        *(f"--proxy=[fd00::92]:{port}" for port in (3128, 443, 53)),
    ]
    assert keeps_proxy(ManifestNode(made, (), []), plan)
    asking = gate_container(replace(plan, tells_pods_apart=True))
    assert asking["args"] == ["gate", "--gateway=[fd00::92]:3128", "--uid=$(POD_UID)"]
    assert {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}} in asking["env"]  # type: ignore[operator]
    assert keeps_proxy(ManifestNode(asking, (), []), plan)
    assert not keeps_proxy(ManifestNode(made, (), []), PLAN)
