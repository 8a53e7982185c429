"""Volumes for pods: folders of the node, which the kubelet gives to the group that a pod asks for.

Each is given away once. A cluster that has given away all of them is started again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from scripts.cluster.addresses import NODE

COUNT: Final = 64
CLASS: Final = "folder"

type Json = dict[str, Any]


def make(folder: Path) -> list[Json]:
    """Make the folders, and return the objects that tell the cluster of them."""
    return [_class(), *(_volume(folder, number) for number in range(COUNT))]


def _class() -> Json:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": annotations},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _volume(folder: Path, number: int) -> Json:
    path = folder / f"{number:02}"
    path.mkdir(parents=True, exist_ok=True)
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"folder-{number:02}"},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": CLASS,
            "local": {"path": str(path)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }
