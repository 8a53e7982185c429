"""C2: a policy comes into force after the pod has started; the gate lets nothing of a pod start before."""

from __future__ import annotations

import pytest

from tests.cluster.running_cluster import RunningCluster
from tests.cluster.shipped_fence import DASH_OUT, DASHED_TO, Fence, names
from tests.cluster.stand_ins import Internet, policy_engine

pytestmark = [pytest.mark.timeout(600), pytest.mark.nightly]

PODS = 12


def test_of_pods_that_dial_out_first_some_get_through_and_with_the_gate_none(
    cluster: RunningCluster, fence: Fence, canary: Internet
) -> None:
    with policy_engine(cluster, late=500):
        without = escapes(fence, canary, "without", has_gate=False)
        assert without, "otherwise the trial proves nothing"
        assert escapes(fence, canary, "with", has_gate=True) == set()


def escapes(fence: Fence, canary: Internet, prefix: str, *, has_gate: bool) -> set[str]:
    """Start pods, and return the addresses of those whose program got around the proxy."""
    before = canary.mark()
    for name in names(prefix, PODS):
        fence.start(name, DASH_OUT, has_gate=has_gate)
    fence.cluster.until_ready(fence.namespace, *names(prefix, PODS))
    return canary.peers(before, DASHED_TO)
