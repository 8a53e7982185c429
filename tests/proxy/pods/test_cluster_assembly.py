"""The cluster of a pod: its files and variables, and the three watches of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.errors import UsageError
from egress.kubernetes.replica_reach import SilentReplica
from egress.kubernetes.watch_events import WatchKind
from egress.proxy.pods.cluster_assembly import open_pods
from egress.proxy.setting_values import ListenAddress
from tests.proxy.injecting_proxy import certs
from tests.proxy.lab.proxy_stack import SANDBOX, ProxyStack
from tests.unit.kubernetes.watch_samples import listed

RULES = "version: 1\nhosts: {api.example.test: {}}\n"
POD = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1", "HOSTNAME": "egress-0"}


async def test_nobody_is_known_before_every_watch_has_listed(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("agents")
    async with ProxyStack(tmp_path, certs, RULES) as stack:
        pods = open_pods(stack.engine, stack.engine.sandboxes[SANDBOX], tmp_path, POD)
        assert {watch.kind for watch in pods.watches(lambda _: None)} == set(WatchKind)
        assert pods.problems() == ["the pods of the cluster are not known"]
        who = pods.sandboxes.identify("10.0.0.1")
        assert who.code == "identity.stale"
        assert who.identity.workload is not None
        assert (who.identity.workload.namespace, who.identity.workload.replica) == ("agents", "egress-0")
        for kind in WatchKind:
            pods.identities.replace(listed(kind, 0))
        assert pods.problems() == []


async def test_elsewhere_than_in_a_pod_it_does_not_start(tmp_path: Path) -> None:
    async with ProxyStack(tmp_path, certs, RULES) as stack:
        with pytest.raises(UsageError, match="no pod of a cluster"):
            open_pods(stack.engine, stack.engine.sandboxes[SANDBOX], tmp_path, {})


async def test_the_metrics_say_which_watch_is_sound(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("agents")
    async with ProxyStack(tmp_path, certs, RULES) as stack:
        pods = open_pods(stack.engine, stack.engine.sandboxes[SANDBOX], tmp_path, POD)
        watches = {watch.kind: watch for watch in pods.watches(lambda _: None)}
        pods.identities.replace(listed(WatchKind.PODS, 0))
        watches[WatchKind.PODS].heard, watches[WatchKind.CLAIMS].lost = 90.0, 3
        told = {
            family.name: {labels[0][1]: value for labels, value in family.points}
            for family in pods.families(100.0)
        }
    assert told == {
        "watch_current": dict.fromkeys(WatchKind, False) | {"pods": True},
        "watch_lost_total": dict.fromkeys(WatchKind, 0) | {"sandboxclaims": 3},
        "watch_silence_seconds": {"pods": 10.0},
    }


async def test_status_and_metrics_say_which_replicas_are_not_compared_with(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("agents")
    async with ProxyStack(tmp_path, certs, RULES) as stack:
        pods = open_pods(stack.engine, stack.engine.sandboxes[SANDBOX], tmp_path, POD)
        assert pods.replicas() == {}
        found = pods.compare(stack.engine, ListenAddress("127.78.0.1", 8081), 30, lambda: None)
        found.silent = (SilentReplica("10.0.0.2", "connection refused"),)
        found._asked = 3
        told = {
            family.name: {labels[0][1]: value for labels, value in family.points}
            for family in pods.families(100.0)
        }
        silent = ["10.0.0.2 (connection refused)"]
        assert pods.replicas() == {"replicas": {"compared": 2, "silent": silent}}
        # It stays as ready as it was.
        assert not [problem for problem in pods.problems() if "10.0.0.2" in problem]
    assert told["replicas"] == {"compared": 2, "silent": 1}
