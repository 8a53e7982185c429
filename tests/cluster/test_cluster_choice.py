"""The cluster of a process: that of the kubeconfig, or the one that it is a pod of."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.cluster.cluster_choice import choose_cluster
from egress.cluster.kubeconfig import kubeconfig_paths
from egress.errors import UsageError
from tests.cluster.test_kubeconfig import config, written


def test_the_kubeconfig_counts_before_the_service_account(tmp_path: Path) -> None:
    pod = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    path = written(tmp_path, config(namespace="agents"))
    assert choose_cluster({**pod, "KUBECONFIG": str(path)}).host == "cluster.example"
    assert choose_cluster({"KUBECONFIG": str(path)}, namespace="other").namespace == "other"
    assert kubeconfig_paths({"HOME": str(tmp_path)}) == ()
    with pytest.raises(UsageError, match="no cluster is known"):
        choose_cluster({"HOME": str(tmp_path)})
    with pytest.raises(UsageError, match="needs a kubeconfig"):
        choose_cluster(pod, "one")
    (tmp_path / ".kube").mkdir()
    written(tmp_path / ".kube", config())
    assert choose_cluster({"HOME": str(tmp_path)}).host == "cluster.example"
