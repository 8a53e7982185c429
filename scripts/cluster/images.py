"""Images for the node: made here, or taken from the container engine. No registry is asked."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.cluster.folders import NodeFolders

PAUSE: Final = "localhost/pause:1"
COREDNS: Final = "localhost/coredns:1"
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def archive(name: str, program: Path) -> bytes:
    """Make the archive of an image that holds one static program, as `docker save` writes it."""
    layer = _tar({program.name: (program.read_bytes(), 0o755)})
    config = json.dumps(
        {
            "architecture": ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": {"Entrypoint": [f"/{program.name}"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {"config.json": config, "layer.tar": layer, "manifest.json": json.dumps(manifest).encode()}
    return _tar({file: (data, 0o644) for file, data in files.items()})


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, (data, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def load_archive(node: NodeFolders, data: bytes) -> None:
    """Give an archive to the node."""
    subprocess.run([*_import(node), "-"], input=data, stdout=subprocess.DEVNULL, check=True)


def load_from_engine(node: NodeFolders, names: Sequence[str]) -> None:
    """Give images of the container engine to the node, under the names that they have there."""
    with subprocess.Popen(["docker", "save", *names], stdout=subprocess.PIPE) as saving:
        done = subprocess.run([*_import(node), "-"], stdin=saving.stdout, check=False)
    if saving.returncode or done.returncode:
        sys.exit(
            f"error: {', '.join(names)} cannot be loaded\nhint: `docker images` lists what the engine has"
        )


def load_as(node: NodeFolders, image: str, name: str) -> None:
    """Give an image of the container engine to the node, which knows it by another name too."""
    kept = f"docker.io/library/{image}"
    have = subprocess.run([*_ctr(node), "list", "--quiet"], capture_output=True, text=True, check=True).stdout
    if kept not in have.splitlines():
        load_from_engine(node, [image])
    tag = [*_ctr(node), "tag", "--force", kept, f"docker.io/library/{name}:latest"]
    subprocess.run(tag, stdout=subprocess.DEVNULL, check=True)


def _import(node: NodeFolders) -> list[str]:
    return [*_ctr(node), "import"]


def _ctr(node: NodeFolders) -> list[str]:
    return ["ctr", "--address", str(node.containerd_socket), "--namespace", "k8s.io", "images"]
