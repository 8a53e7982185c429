"""The addresses of the cluster. All but the link are inside the node's own network namespace."""

from __future__ import annotations

from typing import Final

NODE: Final = "node1"

# The link between the machine and the node: the only interface that appears on the machine.
LINK: Final = "egress-cluster"
MACHINE_ADDRESS: Final = "10.77.0.1"
NODE_ADDRESS: Final = "10.77.0.2"
LINK_PREFIX: Final = 30

# The link between the node and the stand-in for the internet, which answers on every address there is.
OUTSIDE: Final = "outside"
OUTSIDE_ADDRESS: Final = "198.51.100.2"
NODE_OUTSIDE_ADDRESS: Final = "198.51.100.1"

# What container/kubernetes.yaml is written for.
POD_RANGE: Final = "10.244.0.0/24"
SERVICE_RANGE: Final = "10.96.0.0/16"
API_SERVICE: Final = "10.96.0.1"
DNS_SERVICE: Final = "10.96.0.10"

API_PORT: Final = 6443
ETCD: Final = "http://127.0.0.1:2379"
