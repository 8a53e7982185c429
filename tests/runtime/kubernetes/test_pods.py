"""The pods at the API server: a pod of another uid is never touched."""

from __future__ import annotations

import pytest

from egress.runtime.errors import EngineError, EngineUnavailableError, SandboxExistsError
from egress.runtime.kubernetes.pods import Pods
from tests.runtime.kubernetes.fake_cluster import BASE, FakeCluster, served

MANIFEST = {"metadata": {"name": "one", "labels": {"egress": "workload"}}, "spec": {}}


def test_a_pod_is_made_found_and_deleted_by_its_uid() -> None:
    cluster = FakeCluster()
    with served(cluster) as api:
        pods = Pods(api)
        made = pods.create(MANIFEST, "one")
        assert pods.find("one") == made
        assert [each.metadata.name for each in pods.labelled("egress=workload")] == ["one"]
        with pytest.raises(SandboxExistsError):
            pods.create(MANIFEST, "one")
        pods.delete("one", "another uid")
        assert cluster.sandboxes == ["one"]
        pods.delete("one", made.metadata.uid)
        pods.delete("one", made.metadata.uid)
        assert pods.find("one") is None


def test_a_refusal_is_an_error_of_a_sandbox() -> None:
    cluster = FakeCluster()
    with served(cluster) as api:
        pods = Pods(api)
        cluster.refused[f"POST {BASE}/pods"] = (409, {"reason": "Conflict", "message": "quota"})
        with pytest.raises(EngineError, match="quota"):
            pods.create(MANIFEST, "one")
        cluster.refused[f"DELETE {BASE}/pods/one"] = (403, {})
        with pytest.raises(EngineError, match="403"):
            pods.delete("one", "uid")
        cluster.refused[f"GET {BASE}/pods/one"] = (200, {"kind": "Status"})
        with pytest.raises(EngineError, match="something else"):
            pods.find("one")
    with pytest.raises(EngineUnavailableError):
        pods.find("one")
