"""The settings files of the parts, as they are written for one start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from scripts.cluster.addresses import DNS_SERVICE, NODE, POD_RANGE
from scripts.cluster.folders import NodeFolders
from scripts.cluster.images import PAUSE
from scripts.cluster.packages import PLUGINS

CGROUP: Final = "/egress-cluster"
"""Below it are the pods, in every hierarchy of control groups."""


def write_all(node: NodeFolders) -> None:
    """Write the settings of containerd, of the pods' network, of the kubelet and of kube-proxy."""
    (node.root / "containerd.toml").write_text(_containerd(node), "utf-8")
    (node.root / "kubelet.yaml").write_text(json.dumps(_kubelet(node), indent=1), "utf-8")
    # Pods ask the cluster's name server, and that one answers all by itself.
    (node.root / "resolv.conf").write_text(f"nameserver {DNS_SERVICE}\n", "utf-8")
    write_kube_proxy(node.kube_proxy, node.keys / "proxy.kubeconfig")
    node.pod_network.mkdir()
    write_pod_network(node.pod_network)


def write_pod_network(folder: Path, first: str = "", last: str = "") -> None:
    """Write the network of pods that start from now on; a first and a last address make it small."""
    addresses = {"subnet": POD_RANGE}
    if first:
        addresses |= {"rangeStart": first, "rangeEnd": last}
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "hairpinMode": True,
        # The address of a pod is seen as it is wherever the pod gets to, so that a canary can name the pod.
        "ipMasq": False,
        "ipam": {"type": "host-local", "ranges": [[addresses]], "routes": [{"dst": "0.0.0.0/0"}]},
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    network = {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}
    # Replaced as a whole: containerd reads the folder whenever something in it changes.
    (folder / "new").write_text(json.dumps(network, indent=1), "utf-8")
    (folder / "new").rename(folder / "pods.conflist")


def write_kube_proxy(path: Path, kubeconfig: Path, *, is_masquerading: bool = False) -> None:
    """Write how services are translated; `is_masquerading` hides the pod behind the address of the node."""
    found = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "mode": "iptables",
        "iptables": {"masqueradeAll": is_masquerading, "minSyncPeriod": "0s", "syncPeriod": "30s"},
        "clusterCIDR": POD_RANGE,
        "hostnameOverride": NODE,
        # The table of connections belongs to the machine, whose limits stay as they are.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    path.write_text(json.dumps(found, indent=1), "utf-8")


def _containerd(node: NodeFolders) -> str:
    return f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{node.containerd_socket}"
[plugins."io.containerd.grpc.v1.cri"]
  # The node may be a machine that may not raise the score by which its own processes are killed.
  restrict_oom_score_adj = true
  sandbox_image = "{PAUSE}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{PLUGINS}"
    conf_dir = "{node.pod_network}"
"""


def _kubelet(node: NodeFolders) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(node.keys / "authority.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(node.keys / "node.crt"),
        "tlsPrivateKeyFile": str(node.keys / "node.key"),
        "containerRuntimeEndpoint": f"unix://{node.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": CGROUP,
        "failCgroupV1": False,
        "failSwapOn": False,
        # As many as it has addresses for.
        "maxPods": 250,
        "enforceNodeAllocatable": [],
        "serializeImagePulls": False,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        # Images are loaded by hand, and nobody could fetch one again.
        "imageGCHighThresholdPercent": 100,
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": "cluster.local",
        "resolvConf": str(node.root / "resolv.conf"),
    }
