"""The gate of a pod whose fence is in force: `unshare --net python -m bench.kubernetes.gate RUNS`, as root.

It prints numbers as JSON. In a network namespace of its own stand a gateway, an API server, and a default
route to where every packet is dropped, as most engines of network policies do: an address of the cluster is
silent, and the gate has to wait for that. Each run is the command, from the start of its process to its end.
Before, it has to fail for an address that answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time

from bench.kubernetes.cluster_link import ClusterLink
from bench.kubernetes.setting import GATEWAY, PROFILES, Gateway
from bench.kubernetes.stage import staged
from bench.neighbours.priority import go_before_others
from bench.proxy.contestants import BIN

POD = "127.0.0.1"
"""The address that connections to another address of loopback come from."""
BLOCKED = ("10.96.0.1:443", "10.96.0.10:53", "10.77.0.2:10250", "169.254.169.254:80", "192.0.2.1:443")
"""API server, name server, node, metadata, and an address outside of the cluster."""
NETWORK = (
    ("link", "set", "lo", "up"),
    ("link", "add", "pod", "type", "veth", "peer", "name", "drops"),
    ("address", "add", "10.244.0.7/24", "dev", "pod"),
    ("link", "set", "pod", "up"),
    ("link", "set", "drops", "up"),
    # Nobody has this hardware address: the other end drops what is sent to it.
    ("neighbor", "add", "10.244.0.1", "lladdr", "02:00:00:00:00:01", "dev", "pod"),
    ("route", "add", "default", "via", "10.244.0.1"),
)
RUN_TIMEOUT = 60


def measure(runs: int) -> dict[str, float]:
    """Run the gate so many times."""
    go_before_others(os.getpid())
    for words in NETWORK:
        subprocess.run(("ip", *words), check=True)
    with staged(serves_pods=True) as gateway:
        uid = asyncio.run(_come(gateway))
        if not _gate(gateway, uid, f"127.0.0.1:{gateway.upstream}", "--timeout=2").returncode:
            sys.exit("gate: an address that answers was taken for a blocked one")
        found = sorted(_seconds(gateway, uid) for _ in range(runs))
    return {"p50_ms": found[len(found) // 2] * 1e3, "longest_ms": found[-1] * 1e3}


async def _come(gateway: Gateway) -> str:
    link = await ClusterLink.to(gateway)
    news = await link.order("come", address=POD, profile=PROFILES[0])
    link.close()
    return str(news["uid"])


def _seconds(gateway: Gateway, uid: str) -> float:
    began = time.monotonic()
    done = _gate(gateway, uid)
    if done.returncode:
        sys.exit(f"gate: it ended with status {done.returncode}: {done.stderr}")
    return time.monotonic() - began


def _gate(gateway: Gateway, uid: str, blocked: str = "", *more: str) -> subprocess.CompletedProcess[str]:
    addresses = (*BLOCKED, blocked) if blocked else BLOCKED
    words = [f"--blocked={address}" for address in addresses]
    words += [f"--gateway={GATEWAY}:{gateway.port}", f"--uid={uid}", *more]
    return subprocess.run(
        (str(BIN / "egress"), "gate", *words),
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_TIMEOUT,
    )


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
