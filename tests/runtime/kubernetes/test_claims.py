"""Sandboxes from a warm pool: what a claim says, what the template decides, and how both end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.run_ticket import RunTicket, read_statement
from egress.runtime.errors import (
    EngineError,
    GatewayError,
    SandboxExistsError,
    SpecError,
    UnsupportedError,
)
from egress.runtime.kubernetes import runtime as module
from egress.runtime.kubernetes.claimed_scripts import packed_scripts
from egress.runtime.kubernetes.claims import Claims
from egress.runtime.kubernetes.pod_reaper import reap
from egress.runtime.kubernetes.pods import Pods
from egress.runtime.kubernetes.runtime import KubernetesRuntime
from egress.runtime.kubernetes.settings import KubernetesSettings
from egress.runtime.spec import Command, SandboxLimits, Spec
from tests.runtime.kubernetes.fake_cluster import FakeCluster, Json, served

GATE: Json = {"name": "egress-gate", "args": ["gate", "--proxy=10.96.0.92:3128"]}
TEMPLATE: Json = {
    "metadata": {"labels": {"egress": "workload"}},
    "spec": {"initContainers": [GATE], "containers": [{"name": "python"}, {"name": "other"}]},
}
READY: Json = {
    "phase": "Running",
    "containerStatuses": [{"name": "python", "containerID": "containerd://9", "state": {"running": {}}}],
}
REFUSED = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/agents/sandboxclaims"


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(pool=TEMPLATE, status=READY)


@pytest.fixture
def runtime(cluster: FakeCluster, tmp_path: Path) -> Iterator[KubernetesRuntime]:
    with served(cluster) as api:
        made = KubernetesRuntime(api, tmp_path / "home", KubernetesSettings(), lambda: 0.0)
        yield made
        made.close()
    assert (cluster.sandboxclaims, cluster.sandboxes) == ({}, [])


def spec(**values: object) -> Spec:
    return Spec(**{"name": "one", "image": "pool:python", **values})  # type: ignore[arg-type]


def test_a_claim_names_the_pool_the_profile_and_an_end(
    runtime: KubernetesRuntime, cluster: FakeCluster
) -> None:
    made = runtime.create(spec(profile="reader", parameters={"repo": "acme/site"}))
    assert made.state == "created"
    (claim,) = cluster.sandboxclaims.values()
    assert claim["spec"] == {
        "warmPoolRef": {"name": "python"},
        "additionalPodMetadata": {
            "annotations": {"egress/profile": "reader", "egress/param.repo": "acme/site"}
        },
        "lifecycle": {"shutdownTime": "1970-01-02T00:00:00Z", "shutdownPolicy": "Delete"},
    }
    assert claim["metadata"]["labels"]["egress/owner"]
    with pytest.raises(SandboxExistsError):
        runtime.create(spec())


def test_commands_run_in_the_first_container_of_the_pod_with_scripts_of_their_own(
    runtime: KubernetesRuntime, cluster: FakeCluster
) -> None:
    runtime.create(spec(env={"A": "sandbox", "B": "b"}))
    runtime.start("one")
    found = runtime.exec("one", Command(argv=("env",), env={"A": "command"})).stdout.splitlines()
    assert {"A=command", "B=b"} <= set(found)
    unpacked = cluster.commands[0]
    assert unpacked.data == packed_scripts()
    assert unpacked.words[4].startswith("/tmp/.egress-uid-")
    asked = [each for each in cluster.requests if "/exec" in each]
    assert len(asked) == 2
    assert all("/pods/pool-2/exec?container=python&" in each for each in asked)


def test_a_pool_whose_pods_have_no_gate_is_refused(runtime: KubernetesRuntime, cluster: FakeCluster) -> None:
    cluster.pool = {**TEMPLATE, "spec": {"containers": [{"name": "python"}]}}
    with pytest.raises(GatewayError, match="pods of the warm pool python have no gate"):
        runtime.create(spec())
    cluster.pool = {**TEMPLATE, "metadata": {"labels": {}}}
    with pytest.raises(GatewayError, match="have no gate"):
        runtime.create(spec())
    assert cluster.sandboxclaims == {}
    cluster.pool = TEMPLATE
    runtime.create(spec())


@pytest.mark.parametrize(
    "values", [{"read_only": True}, {"limits": SandboxLimits(memory_mib=64)}, {"ports": (8443,)}]
)
def test_what_the_template_decides_is_refused(runtime: KubernetesRuntime, values: dict[str, object]) -> None:
    with pytest.raises(UnsupportedError, match="from a warm pool cannot be chosen"):
        runtime.create(spec(**values))
    with pytest.raises(SpecError):
        runtime.create(spec(image="pool:a_b"))


def test_a_cluster_without_pools_is_named(runtime: KubernetesRuntime, cluster: FakeCluster) -> None:
    cluster.pool = None
    with pytest.raises(SpecError, match="the cluster has no warm pools"):
        runtime.create(spec())


def test_a_claim_that_gets_nothing_is_given_up(
    runtime: KubernetesRuntime, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READY_SECONDS", 0.1)
    waits = {"type": "Ready", "status": "False", "message": "no pool\nof this name"}
    cluster.refused[f"GET {REFUSED}/one"] = (
        200,
        {"metadata": {"name": "one", "uid": "uid-3"}, "status": {"conditions": [waits]}},
    )
    with pytest.raises(EngineError, match=r"got no sandbox within 0\.1s: no pool of this name"):
        runtime.create(spec())
    assert cluster.sandboxclaims == {}


def test_claims_of_dead_runtimes_go_too(cluster: FakeCluster, tmp_path: Path) -> None:
    (tmp_path / "0123.lease").touch()
    with served(cluster) as api:
        cluster.add_claim("left", {"name": "left", "labels": {"egress/owner": "0123"}}, {})
        cluster.add_claim("other", {"name": "other", "labels": {"egress/owner": "4567"}}, {})
        assert reap(Pods(api), Claims(api), tmp_path) == ("left",)
    assert list(cluster.sandboxclaims) == ["other"]


def test_a_ticket_stands_on_the_claim_and_goes_from_it(
    runtime: KubernetesRuntime, cluster: FakeCluster
) -> None:
    runtime.create(spec(profile="reader"))
    runtime.start("one")
    ticket = RunTicket("5e884898da280471" + "0" * 48, 2_000_000_000, "author")
    runtime.add_ticket("one", ticket, 60)
    (claim,), (member,) = cluster.sandboxclaims.values(), cluster.sandboxes
    pod = cluster.pods[member]
    statement = read_statement(claim["metadata"]["annotations"]["egress/ticket.t-5e884898da280471"])
    assert statement is not None
    assert (statement.ticket, statement.pod) == (ticket, pod["metadata"]["uid"])
    assert claim["spec"]["additionalPodMetadata"] == {"annotations": {"egress/profile": "reader"}}
    runtime.end_ticket("one", ticket.id)
    assert claim["metadata"]["annotations"] == {}
