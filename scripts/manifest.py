"""Write container/kubernetes.yaml: what the chart renders with its default values, and a workload behind it.

`python -m scripts.manifest` needs Helm, which the development requirements bring.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
CHART: Final = ROOT / "charts/egress"
MANIFEST: Final = ROOT / "container/kubernetes.yaml"
HELM: Final = Path(sys.executable).with_name("helm")
NAMESPACE: Final = "agents"

HEAD: Final = """\
# A gateway for sandboxes in Kubernetes, without Helm: what the chart renders with its default values, and an
# example of a workload. The gateway is a set of pods of its own: containers of one pod share one network, and
# then the only wall is a number of a user. Here the wall is a NetworkPolicy. It needs a cluster whose network
# enforces those; the first init container of a workload proves it, each time a pod starts.
#
# Before, with the images on the nodes, or under their names in a registry of yours:
#   kubectl create namespace agents
#   kubectl -n agents create secret generic egress-token --from-file=token
#   kubectl apply -f kubernetes.yaml
#
# Replace these addresses wherever they stand. 10.96.0.92 has to be a free one among those of the services
# of your cluster; 10.96.0.10 is its name server, 10.96.0.1 its API server, and the ranges 10.96.0.0/12 and
# 10.244.0.0/16 are those of services and pods. A network plugin that judges a connection by the place where
# it ends needs the endpoints of the API server beside 10.96.0.1, in both policies that name it:
#   kubectl -n default get endpointslices kubernetes
#
# Network policies add up: another policy that selects a workload opens what it names, whatever stands here.
# The admission policies below refuse one. To see what is in force:
#   kubectl -n agents get networkpolicy
apiVersion: v1
kind: Namespace
metadata:
  name: agents
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""
# Helm runs such objects before the others; whoever applies a file has no use for its notes.
_HOOK: Final = re.compile(r"^  annotations:\n(?:    helm\.sh/[^\n]*\n)+", re.MULTILINE)
_SOURCE: Final = re.compile(r"^# Source: [^\n]*\n", re.MULTILINE)


def manifest() -> str:
    """Return the text of container/kubernetes.yaml."""
    command = [str(HELM), "template", "egress", str(CHART), "--namespace", NAMESPACE, "--skip-tests"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rendered = _HOOK.sub("", _SOURCE.sub("", done.stdout))
    example = (
        (CHART / "examples/pod.yaml")
        .read_text("utf-8")
        .replace("# What makes", "# An example. What makes", 1)
    )
    return f"{HEAD}{rendered}---\n{example}"


def main() -> None:
    MANIFEST.write_text(manifest(), "utf-8")


if __name__ == "__main__":
    main()
