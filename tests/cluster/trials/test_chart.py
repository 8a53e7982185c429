"""The chart on a real cluster: installed, upgraded and tested by Helm, and every refusal of its admission."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final

import pytest

from tests.chart.test_admission import (
    ALL_PODS,
    FINE,
    PROXY_PEER,
    WEAK,
    policy,
    template,
    workload,
)
from tests.cluster.agent_sandbox.controller import define
from tests.cluster.conftest import DEFINITIONS
from tests.cluster.installed_chart import InstalledChart
from tests.cluster.running_cluster import RunningCluster, wait
from tests.cluster.stand_ins import policy_engine

pytestmark = [pytest.mark.timeout(600), pytest.mark.nightly]

NETWORKING: Final = "apis/networking.k8s.io/v1"
DENIED: Final = "ValidatingAdmissionPolicy 'egress-"
# An API server refuses these by itself, before it asks a policy.
INVALID: Final = frozenset(
    {
        "another first",
        "a debugger",
        "the job's account",
        "a debugger with rights",
        "a privileged debugger",
        "a debugger that drops little",
        "the cluster's names",
        "no name server of its own",
        "no name servers",
        "a mount in the gate",
        "the node's network",
        "the node's processes",
        "the node's memory",
        "a folder of the node",
    }
)


@pytest.fixture(scope="module")
def standing_chart(
    running: RunningCluster | None, images_of_the_product: None
) -> Iterator[InstalledChart | None]:
    if running is None:
        yield None
        return
    found = InstalledChart(running, "chart-alone", address="10.96.40.1")
    found.remove()
    try:
        found.prepare()
        found.install()
        yield found
    finally:
        found.remove()


@pytest.fixture
def chart(cluster: RunningCluster, standing_chart: InstalledChart | None) -> InstalledChart:
    assert standing_chart is not None
    return standing_chart


def test_the_job_makes_the_authority_once(chart: InstalledChart) -> None:
    secret, trust = chart.path("secrets/egress-authority"), chart.path("configmaps/egress-trust")
    before = [chart.cluster.api.get(path) for path in (secret, trust)]
    assert "PRIVATE KEY" in base64.b64decode(before[0]["data"]["authority.pem"]).decode()
    assert before[1]["data"]["ca.pem"] in before[1]["data"]["bundle.pem"]
    chart.upgrade()
    after = [chart.cluster.api.get(path) for path in (secret, trust)]
    assert [each["metadata"]["resourceVersion"] for each in after] == [
        each["metadata"]["resourceVersion"] for each in before
    ]
    # The job and its rights have gone with the upgrade.
    accounts = chart.cluster.api.get(chart.path("serviceaccounts"))["items"]
    assert "egress-authority" not in {each["metadata"]["name"] for each in accounts}


def test_the_key_is_in_no_other_object(chart: InstalledChart) -> None:
    data = chart.cluster.api.get(chart.path("secrets/egress-authority"))["data"]["authority.pem"]
    line = base64.b64decode(data).decode().splitlines()[1]
    others = chart.cluster.kubectl(
        "-n", chart.namespace, "get", "all,configmaps,events,networkpolicies,roles", "-o", "json"
    )
    assert line in base64.b64decode(data).decode()
    assert line not in others
    assert data not in others


def test_the_gateway_may_read_what_it_needs_and_nothing_else(chart: InstalledChart) -> None:
    account = f"system:serviceaccount:{chart.namespace}:egress-proxy"

    def may(*words: str, namespace: str = chart.namespace) -> bool:
        review = {
            "spec": {
                "user": account,
                "resourceAttributes": dict(zip(("verb", "group", "resource", "name"), words, strict=False))
                | {"namespace": namespace},
            }
        }
        answer = chart.cluster.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    for verb in ("get", "list", "watch"):
        assert may(verb, "", "pods")
        assert may(verb, "agents.x-k8s.io", "sandboxes")
        assert may(verb, "extensions.agents.x-k8s.io", "sandboxclaims")
    assert may("get", "", "configmaps", "egress-rules")
    assert not may("get", "", "configmaps", "egress-trust")
    assert not may("list", "", "configmaps")
    for verb in ("get", "list", "create"):
        assert not may(verb, "", "secrets", "egress-authority")
    assert not may("create", "", "pods")
    assert not may("get", "", "pods", namespace="kube-system")


def test_every_pod_that_opens_the_fence_is_refused_and_its_twins_are_admitted(chart: InstalledChart) -> None:
    assert chart.try_to_create(chart.workload()) == ""
    by_policy = 0
    for name, (change, message) in WEAK.items():
        # The table has the addresses of the values that the chart has by itself.
        pod = workload()
        change(pod)
        said = chart.try_to_create(chart.here(pod))
        assert said, f"{name}: it was admitted"
        if name not in INVALID:
            assert DENIED in said, f"{name}: {said}"
            assert message in said, f"{name}: {said}"
            by_policy += 1
    assert by_policy > 35
    for name, change in FINE.items():
        if name in {"a safe debugger", "a second init container"}:
            continue
        pod = workload()
        change(pod)
        assert chart.try_to_create(chart.here(pod)) == "", name


def test_a_policy_that_opens_is_refused(chart: InstalledChart) -> None:
    good = {"to": [PROXY_PEER], "ports": [{"port": 3128}]}
    for rule, is_fine in (
        (good, True),
        ({}, False),
        ({"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}, False),
        ({"to": [{"podSelector": {}}]}, False),
        ({"to": [{**PROXY_PEER, "namespaceSelector": {}}]}, False),
    ):
        said = chart.try_to_create(policy("tools", ALL_PODS, good, rule), "networkpolicies", NETWORKING)
        assert (said == "") is is_fine, said
        assert is_fine or DENIED in said


def test_a_template_that_the_controller_would_open_is_refused(chart: InstalledChart) -> None:
    define(chart.cluster, str(DEFINITIONS))
    group = "apis/extensions.agents.x-k8s.io/v1beta1"
    assert chart.try_to_create(chart.here(template()), "sandboxtemplates", group) == ""
    for spec in ({"networkPolicy": None}, {"networkPolicyManagement": "Unmanaged"}):
        said = chart.try_to_create(chart.here(template(**spec)), "sandboxtemplates", group)
        assert DENIED in said, said


def test_kubectl_debug_gets_no_capability(chart: InstalledChart) -> None:
    pod = chart.workload()
    pod["metadata"]["name"] = "debugged"
    chart.cluster.api.create(chart.path("pods"), pod)
    path = chart.path("pods/debugged/ephemeralcontainers?dryRun=All")
    try:
        for rights, is_fine in (
            ({"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}, True),
            ({"allowPrivilegeEscalation": False, "capabilities": {"drop": ["NET_RAW"]}}, False),
        ):
            debugger = {"name": "d", "image": "egress-proxy", "securityContext": rights}
            change = {"spec": {"ephemeralContainers": [debugger]}}
            try:
                chart.cluster.api.patch(path, change, "strategic")
                said = ""
            except Exception as error:  # noqa: BLE001 - whatever refuses
                said = str(error)
            assert (said == "") is is_fine, said
    finally:
        chart.cluster.delete_pods(chart.namespace, "debugged")


def test_a_bare_pod_becomes_a_sandbox_where_that_is_asked_for(chart: InstalledChart) -> None:
    bare = {"metadata": {"name": "bare"}, "spec": {"containers": [{"name": "main", "image": "agent:1"}]}}
    assert chart.try_to_create(bare) != ""
    chart.upgrade(values={"admission": {"complete": True}})
    try:
        wait(lambda: chart.try_to_create(bare) == "", lambda: chart.try_to_create(bare))
        made = chart.cluster.api.create(f"{chart.path('pods')}?dryRun=All", bare)
        assert made["metadata"]["labels"]["egress"] == "workload"
        assert made["spec"]["initContainers"][0]["name"] == "egress-gate"
        assert [each["name"] for each in made["spec"]["volumes"]] == ["egress-trust"]
        names = {each["name"] for each in made["spec"]["containers"][0]["env"]}
        assert {"HTTPS_PROXY", "SSL_CERT_FILE"} <= names
    finally:
        chart.upgrade()


def test_helm_test_proves_the_fence(chart: InstalledChart) -> None:
    chart.until_proxy_serves()
    with policy_engine(chart.cluster):
        assert "Phase:          Succeeded" in chart.helm("test", "egress", "--timeout=120s")
