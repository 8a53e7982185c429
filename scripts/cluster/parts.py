"""The parts of the cluster and the commands that start them, in the order in which they are started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.cluster.addresses import API_PORT, ETCD, NODE, NODE_ADDRESS, POD_RANGE, SERVICE_RANGE
from scripts.cluster.folders import NodeFolders


@dataclass(frozen=True, slots=True)
class Part:
    """A program that runs as long as the node."""

    name: str
    command: tuple[str, ...]


def all_parts(programs: Path, node: NodeFolders) -> Iterator[Part]:
    """Name every part of a one-node cluster."""
    yield Part("etcd", _etcd(programs, node))
    yield Part("kube-apiserver", _api_server(programs, node))
    yield Part("kube-controller-manager", _controller_manager(programs, node))
    keys = node.keys
    scheduler = (f"--kubeconfig={keys / 'scheduler.kubeconfig'}", "--leader-elect=false")
    yield Part("kube-scheduler", (str(programs / "kube-scheduler"), *scheduler))
    yield Part("containerd", ("containerd", "--config", str(node.root / "containerd.toml")))
    yield Part("kubelet", _kubelet(programs, node))
    yield Part("kube-proxy", (str(programs / "kube-proxy"), f"--config={node.kube_proxy}"))


def _etcd(programs: Path, node: NodeFolders) -> tuple[str, ...]:
    return (
        str(programs / "etcd"),
        f"--data-dir={node.root / 'etcd'}",
        f"--listen-client-urls={ETCD}",
        f"--advertise-client-urls={ETCD}",
        # Nothing here outlives the node, so nothing has to survive the machine.
        "--unsafe-no-fsync=true",
    )


def _api_server(programs: Path, node: NodeFolders) -> tuple[str, ...]:
    keys = node.keys
    return (
        str(programs / "kube-apiserver"),
        f"--etcd-servers={ETCD}",
        f"--secure-port={API_PORT}",
        f"--advertise-address={NODE_ADDRESS}",
        f"--tls-cert-file={keys / 'api-server.crt'}",
        f"--tls-private-key-file={keys / 'api-server.key'}",
        f"--client-ca-file={keys / 'authority.crt'}",
        f"--service-account-key-file={keys / 'accounts.pub'}",
        f"--service-account-signing-key-file={keys / 'accounts.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        f"--kubelet-client-certificate={keys / 'admin.crt'}",
        f"--kubelet-client-key={keys / 'admin.key'}",
        f"--kubelet-certificate-authority={keys / 'authority.crt'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged=true",
        # The second kind of admission policy is off by default in this version.
        "--feature-gates=MutatingAdmissionPolicy=true",
        "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
    )


def _controller_manager(programs: Path, node: NodeFolders) -> tuple[str, ...]:
    keys = node.keys
    return (
        str(programs / "kube-controller-manager"),
        f"--kubeconfig={keys / 'controller-manager.kubeconfig'}",
        f"--service-account-private-key-file={keys / 'accounts.key'}",
        f"--root-ca-file={keys / 'authority.crt'}",
        "--use-service-account-credentials=true",
        f"--cluster-cidr={POD_RANGE}",
        "--allocate-node-cidrs=false",
        "--leader-elect=false",
    )


def _kubelet(programs: Path, node: NodeFolders) -> tuple[str, ...]:
    return (
        str(programs / "kubelet"),
        f"--config={node.root / 'kubelet.yaml'}",
        f"--kubeconfig={node.keys / 'node.kubeconfig'}",
        f"--hostname-override={NODE}",
        f"--node-ip={NODE_ADDRESS}",
    )
