"""The job that makes the gateway's authority: neither a sandbox nor the proxy, and known by what it runs."""

from __future__ import annotations

from typing import Final

from egress.kubernetes.gate_check import runs
from egress.kubernetes.pod_shapes import PodShape

AUTHORITY_LABEL: Final = ("app", "egress-authority")
AUTHORITY_COMMAND: Final = ("egress", "k8s", "ca")


def is_authority_job(pod: PodShape) -> bool:
    """Report whether a pod has the label of that job and runs its command alone."""
    key, value = AUTHORITY_LABEL
    containers = list(pod.containers)
    # Who has the label reaches the API server, so another program below it is a stranger.
    return (
        pod.labels.get(key) == value
        and bool(containers)
        and all(runs(each)[:3] == AUTHORITY_COMMAND for each in containers)
    )
