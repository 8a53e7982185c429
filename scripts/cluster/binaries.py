"""The programs of Kubernetes, etcd and CoreDNS, built from Go modules: once for each set of versions."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scripts.cluster.folders import cache

HERE: Final = Path(__file__).parent
SOURCES: Final = (
    "kubernetes/go.mod",
    "kubernetes/go.sum",
    "coredns/go.mod",
    "coredns/go.sum",
    "coredns/main.go",
    "pause/main.go",
)
MIN_GO: Final = (1, 21)
"""The first Go that fetches the newer one that a module asks for."""
NICENESS: Final = 15
VERSION: Final = re.compile(r"\bk8s\.io/kubernetes v(1\.(\d+)\.\d+)\b")


def digest() -> str:
    """Name the set of programs: the versions and hashes of everything that they are built from."""
    found = hashlib.sha256(linker_flags().encode())
    for source in SOURCES:
        found.update((HERE / source).read_bytes())
    return found.hexdigest()[:16]


def folder() -> Path:
    """The folder of the programs; it is there only when all of them are."""
    return cache() / f"programs-{digest()}"


def linker_flags() -> str:
    """No symbols; and the version, which programs that ask the API server refuse to do without."""
    if not (version := VERSION.search((HERE / "kubernetes/go.mod").read_text("utf-8"))):
        sys.exit("error: scripts/cluster/kubernetes/go.mod names no version of k8s.io/kubernetes")
    package = "k8s.io/component-base/version"
    said = {"gitVersion": f"v{version[1]}", "gitMajor": "1", "gitMinor": version[2]}
    return " ".join(["-s", "-w", *(f"-X {package}.{name}={value}" for name, value in said.items())])


def build() -> Path:
    """Build what is not there yet, and return its folder. Takes six minutes of a processor."""
    found = folder()
    found.parent.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(found.parent / "build.lock"):
        if found.is_dir():
            return found
        _require_go()
        print("building Kubernetes, etcd and CoreDNS: about six minutes of a processor, once", flush=True)
        started = time.monotonic()
        scratch = Path(tempfile.mkdtemp(prefix="building-", dir=found.parent))
        try:
            _go("kubernetes", "build", "-o", f"{scratch}/", "tool")
            # Named after the last folder of its module.
            (scratch / "server").rename(scratch / "etcd")
            _go("coredns", "build", "-o", str(scratch / "coredns"), ".")
            _go("pause", "build", "-o", str(scratch / "pause"), "main.go")
            scratch.chmod(0o755)
            scratch.rename(found)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        print(f"built in {time.monotonic() - started:.0f} s", flush=True)
    return found


def _go(folder: str, command: str, *words: str) -> None:
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"}
    if folder == "pause":
        environment |= {"GOFLAGS": "-buildvcs=false"}
    done = subprocess.run(
        ["nice", "-n", str(NICENESS), "go", command, "-trimpath", "-ldflags", linker_flags(), *words],
        cwd=HERE / folder,
        env=environment,
        check=False,
    )
    if done.returncode:
        sys.exit(f"error: {folder} cannot be built\nhint: the messages above are those of `go {command}`")


def _require_go() -> None:
    program = shutil.which("go")
    if program is None:
        sys.exit("error: go is missing\nhint: install Go 1.21 or newer")
    said = subprocess.run([program, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"go(\d+)\.(\d+)", said)
    if version is None or (int(version[1]), int(version[2])) < MIN_GO:
        sys.exit(f"error: this Go is too old: {said.strip()}\nhint: install Go 1.21 or newer")


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
