"""A pod that no template made becomes a sandbox on its way into the cluster."""

from __future__ import annotations

import json
from typing import Final

import pytest

from egress.cli.kubernetes.inject import _variables
from egress.kubernetes.manifest_check import check_manifests
from egress.kubernetes.manifest_set import PodLabels
from egress.kubernetes.manifest_text import read_manifests
from tests.chart.admission import completed, refusals
from tests.chart.rendered_chart import EXAMPLES, Json, objects, one, parsed, rendered

VALUES: Final[Json] = {"admission": {"complete": True}}
# The API server adds it before: a volume and a mount for each container.
TOKEN: Final[Json] = {
    "name": "kube-api-access-x",
    "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]},
}
MOUNT: Final[Json] = {
    "name": "kube-api-access-x",
    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
}


def pod(**spec: object) -> Json:
    meta = {"name": "bare", "namespace": "agents"}
    container = {"name": "main", "image": "agent:1", "volumeMounts": [dict(MOUNT)]}
    given = {"containers": [container], "volumes": [dict(TOKEN)], "securityContext": {}, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": given}


PODS: Final[dict[str, Json]] = {
    "bare": pod(),
    "without a token": pod(volumes=[], containers=[{"name": "main", "image": "agent:1"}]),
    "no list at all": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare", "namespace": "agents"},
        "spec": {"containers": [{"name": "main", "image": "agent:1"}]},
    },
    "more of everything": pod(
        initContainers=[
            {
                "name": "first",
                "image": "agent:1",
                "volumeMounts": [{"name": "w", "mountPath": "/w"}, dict(MOUNT)],
            }
        ],
        containers=[
            {
                "name": "main",
                "image": "agent:1",
                "env": [{"name": "NO_PROXY", "value": "*"}, {"name": "A", "value": "b"}],
                "volumeMounts": [{"name": "w", "mountPath": "/w"}, dict(MOUNT)],
            },
            {"name": "side", "image": "agent:1"},
        ],
        volumes=[{"name": "w", "emptyDir": {}}, dict(TOKEN)],
        dnsPolicy="ClusterFirst",
    ),
}


@pytest.mark.parametrize("given", PODS.values(), ids=PODS)
def test_a_bare_pod_becomes_a_sandbox_that_is_admitted_and_has_no_finding(given: Json) -> None:
    assert refusals(objects(VALUES), "egress-agents-pods", given) != []
    made = completed(objects(VALUES), given)
    assert refusals(objects(VALUES), "egress-agents-pods", made) == []
    texts = [read_manifests("chart", rendered(VALUES)), read_manifests("pod", json.dumps(made))]
    assert check_manifests(texts, "agents", PodLabels()).findings == ()


def test_what_somebody_wrote_stays() -> None:
    made = completed(objects(VALUES), PODS["more of everything"])["spec"]
    names = [each["name"] for each in made["initContainers"]]
    assert names == ["egress-gate", "first"]
    main, side = made["containers"]
    assert {"name": "A", "value": "b"} in main["env"]
    assert {"name": "w", "mountPath": "/w"} in main["volumeMounts"]
    # A variable that leads around the gateway is replaced, as by `egress k8s inject`.
    assert [each["value"] for each in main["env"] if each["name"] == "NO_PROXY"] == [
        "localhost,127.0.0.1,::1"
    ]
    assert len(side["env"]) == len(main["env"]) - 1


def test_rights_that_somebody_wrote_are_not_taken_but_refused() -> None:
    made = completed(objects(VALUES), pod(hostNetwork=True))
    assert made["spec"]["hostNetwork"] is True
    (message,) = refusals(objects(VALUES), "egress-agents-pods", made)
    assert "shares neither network" in message


def test_pods_with_a_gate_and_those_of_egress_are_left_alone() -> None:
    (example,) = [each for file in EXAMPLES if file.stem == "pod" for each in parsed(file.read_text("utf-8"))]
    assert completed(objects(VALUES), example) == example
    for owner in (one(objects(), "StatefulSet"), one(objects(), "Job")):
        own = {"kind": "Pod", **owner["spec"]["template"]}
        assert completed(objects(VALUES), own) == own


def test_the_variables_are_those_of_the_command() -> None:
    made = completed(objects(VALUES), PODS["bare"])["spec"]["containers"][0]["env"]
    assert {each["name"]: each["value"] for each in made} == dict(_variables("http://10.96.0.92:3128"))


def test_without_the_value_there_is_no_mutation() -> None:
    kinds = {each["kind"] for each in objects()}
    assert not {kind for kind in kinds if kind.startswith("Mutating")}


def test_the_version_of_the_api_is_the_one_that_the_cluster_has() -> None:
    version = "admissionregistration.k8s.io/v1"
    newest = objects(VALUES, "--api-versions", f"{version}/MutatingAdmissionPolicy")
    assert one(newest, "MutatingAdmissionPolicy")["apiVersion"] == version
    assert one(objects(VALUES), "MutatingAdmissionPolicy")["apiVersion"] == f"{version}beta1"
