"""Where the cluster keeps its files: outside of the work tree, below the user's cache folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def cache() -> Path:
    """The folder of everything here."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "egress/cluster"


@dataclass(frozen=True, slots=True)
class NodeFolders:
    """The files of one running node."""

    root: Path

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def containerd_socket(self) -> Path:
        return self.root / "containerd.sock"

    @property
    def process(self) -> Path:
        """The file with the number and the start of the process that everything else ends with."""
        return self.root / "process"

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    @property
    def logs(self) -> Path:
        return self.root / "log"

    @property
    def volumes(self) -> Path:
        return self.root / "volumes"

    @property
    def pod_network(self) -> Path:
        """The folder from which containerd reads the network of pods, again whenever it changes."""
        return self.root / "network"

    @property
    def kube_proxy(self) -> Path:
        """The settings of kube-proxy, which starts again when they change."""
        return self.root / "kube-proxy.yaml"


def node_folders() -> NodeFolders:
    return NodeFolders(cache() / "node")
