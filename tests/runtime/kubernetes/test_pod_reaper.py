"""What a runtime that was killed left behind."""

from __future__ import annotations

from pathlib import Path

from egress.runtime.kubernetes.claims import Claims
from egress.runtime.kubernetes.pod_reaper import reap
from egress.runtime.kubernetes.pods import Pods
from egress.runtime.owner_lock import OwnerLock
from tests.runtime.kubernetes.fake_cluster import FakeCluster, served


def test_pods_of_dead_runtimes_of_this_folder_go_and_no_others(tmp_path: Path) -> None:
    cluster = FakeCluster()
    dead = tmp_path / "0123456789abcdef.lease"
    dead.touch()
    with served(cluster) as api, OwnerLock(tmp_path) as held:
        owners = {"left": dead.stem, "alive": held.path.stem, "elsewhere": "fedcba9876543210"}
        for name, owner in owners.items():
            cluster.add_pod(name, {"labels": {"egress/owner": owner}}, {})
        cluster.add_pod("other", {"labels": {"app": "other"}}, {})
        assert reap(Pods(api), Claims(api), tmp_path) == ("left",)
        assert cluster.sandboxes == ["alive", "elsewhere", "other"]
        assert not dead.exists()
        asked = len(cluster.requests)
        assert reap(Pods(api), Claims(api), tmp_path) == ()
        assert len(cluster.requests) == asked
