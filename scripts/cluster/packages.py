"""What a node takes from Debian: the container runtime, and the plugins that give pods their network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

PLUGINS: Final = Path("/usr/lib/cni")
PROGRAMS: Final = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "nft": "nftables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    str(PLUGINS / "bridge"): "containernetworking-plugins",
}
"""Programs, and the Debian packages that bring them."""


def missing() -> list[str]:
    """Name the packages that are not there."""
    return sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})


def require() -> None:
    """Install what is missing. Exits with a hint where that is not possible."""
    if os.geteuid() != 0:
        sys.exit("error: a node is started by root alone\nhint: sudo make cluster")
    if not (wanted := missing()):
        return
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *wanted]
    if shutil.which("apt-get") is None:
        sys.exit(f"error: {', '.join(wanted)} are missing\nhint: this machine has no apt-get; install them")
    print(f"installing {' '.join(wanted)}", flush=True)
    # Nothing here may start a service: the runtime of this cluster is started by the cluster.
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode or missing():
        print(done.stdout[-2000:], done.stderr[-2000:], sep="\n", file=sys.stderr)
        sys.exit(f"error: {', '.join(wanted)} cannot be installed\nhint: {' '.join(command)}")
