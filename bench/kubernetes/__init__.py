"""One gateway for the sandboxes of a namespace: what 1,000 of them cost, and how soon it knows whose is what.

A real `egress serve --kubernetes` watches an API server, which is the tests' own in a process beside it,
with pods of 9 kB at addresses of loopback. The gateway has core 0 to itself; API server, upstream and clients
share core 1. Four things are measured, in this order, and the last three at the same gateway:

- the gate of a pod where the fence is in force, in a network namespace that drops packets (as root);
- 1,000 sandboxes with one request a second each, over a connection that each keeps;
- 45 claims a second, each of which takes a sandbox from a warm pool, while the pool is filled up and as many
  older ones end: sixteen events of pods, sandboxes and claims for each, 720 a second;
- three addresses that go from pod to pod 200 times, and the names in the log.

    python -m bench kubernetes                               two minutes and a half
    EGRESS_BENCH_SECONDS=600 python -m bench kubernetes      claims for ten minutes
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.kubernetes.cluster_link import ClusterLink
from bench.kubernetes.setting import Gateway
from bench.kubernetes.stage import staged
from bench.proxy.process import OTHERS, cpu_seconds, last_line, resident, start, stop

type Row = tuple[str, float, str, float | None]
type Found = dict[str, float]

SECONDS = float(os.environ.get("EGRESS_BENCH_SECONDS", "60"))
STEADY_SECONDS = 20.0
REST_SECONDS = 5.0
UNASKED_SECONDS = 15.0
SANDBOXES = 1000
POOLED = 150
CLAIMS_PER_SECOND = 45.0
REUSES = 200
GATES = 15

EXTRA_TIMEOUT = 60
MAX_GATE_MS = 1000.0
MAX_STEADY_SHARE = 25.0
MAX_STEADY_MIB = 400.0
MAX_CHURN_SHARE = 20.0
MAX_LAG_MS = 200.0
MAX_FIRST_MS = 100.0


def run() -> Iterator[Row]:
    yield from _gate()
    with staged() as gateway:
        asyncio.run(_stand(gateway))
        yield from _resting(gateway)
        yield from _steady(gateway)
        yield from _churn(gateway)
        yield from _reuse(gateway)


async def _stand(gateway: Gateway) -> None:
    link = await ClusterLink.to(gateway)
    await link.order("stand", claimed=SANDBOXES, pooled=POOLED)
    link.close()


def _client(gateway: Gateway, name: str, *words: float | str, seconds: float) -> Found:
    """Have a client do its job in a process of its own, and return what it found."""
    log = Path(gateway.folder) / f"{name}.log"
    command = [sys.executable, "-m", f"bench.kubernetes.{name}", gateway.text(), *map(str, words)]
    process = start(command, OTHERS, log=log)
    try:
        status = process.wait(seconds + EXTRA_TIMEOUT)
    finally:
        stop(process)
    if status:
        sys.exit(f"kubernetes: {name} ended with status {status}: {last_line(log)}")
    found: Found = json.loads(last_line(log))
    return found


def _gate() -> Iterator[Row]:
    if os.geteuid():
        print("kubernetes: the gate is left out: its network namespace takes root", file=sys.stderr)
        return
    command = ["unshare", "--net", sys.executable, "-m", "bench.kubernetes.gate", str(GATES)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"kubernetes: the gate ended with status {done.returncode}")
    found: Found = json.loads(done.stdout.splitlines()[-1])
    yield "the gate of a pod, where the fence drops packets: p50", found["p50_ms"], "ms", MAX_GATE_MS
    yield "  the longest", found["longest_ms"], "ms", None


def _resting(gateway: Gateway) -> Iterator[Row]:
    time.sleep(1)
    cpu, began = cpu_seconds(gateway.pid), time.monotonic()
    time.sleep(REST_SECONDS)
    share = (cpu_seconds(gateway.pid) - cpu) / (time.monotonic() - began)
    yield f"{SANDBOXES} sandboxes that rest: of one core", share * 100, "%", None
    yield "  memory, while none has connected", resident(gateway.pid), "MiB", None


def _steady(gateway: Gateway) -> Iterator[Row]:
    found = _client(gateway, "steady", SANDBOXES, STEADY_SECONDS, seconds=STEADY_SECONDS)
    if found["answered"] != found["asked"]:
        sys.exit(f"kubernetes: {found['asked'] - found['answered']:.0f} requests were not answered in time")
    yield (
        f"{SANDBOXES} sandboxes, a request a second each: of one core",
        found["cpu_share"] * 100,
        "%",
        MAX_STEADY_SHARE,
    )
    yield (
        "  processor for each request",
        found["cpu_share"] * STEADY_SECONDS / found["asked"] * 1e6,
        "us",
        None,
    )
    yield "  memory at its peak", found["memory_mib"], "MiB", MAX_STEADY_MIB
    yield "  delay of a request, p50", found["p50_ms"], "ms", None
    yield "  delay of a request, p99", found["p99_ms"], "ms", None
    lines = _requests_logged(gateway)
    yield "  a line of the log", len(b"".join(lines)) / len(lines), "bytes", None
    yield "  the same, packed by gzip", len(gzip.compress(b"".join(lines))) / len(lines), "bytes", None


def _requests_logged(gateway: Gateway) -> list[bytes]:
    """The lines about requests; enough of them to see what they have in common."""
    files = sorted(gateway.log.glob("*.jsonl"))
    text = b"".join(file.read_bytes() for file in files)
    return [line for line in text.splitlines(keepends=True) if b'"event":"exchange"' in line]


def _churn(gateway: Gateway) -> Iterator[Row]:
    words = (UNASKED_SECONDS, CLAIMS_PER_SECOND)
    alone = _client(gateway, "churn", *words, "unasked", seconds=UNASKED_SECONDS)
    found = _client(gateway, "churn", SECONDS, CLAIMS_PER_SECOND, seconds=SECONDS)
    rate = found["claims"] / SECONDS
    yield f"claims for {SECONDS:.0f} s, by a target of {CLAIMS_PER_SECOND:.0f}", rate, "/s", None
    yield "  events of the three watches", found["events"] / SECONDS, "/s", None
    yield "  their bytes", found["bytes"] / SECONDS / 1e6, "MB/s", None
    yield "  processor of the gateway, of one core", found["cpu_share"] * 100, "%", MAX_CHURN_SHARE
    each = alone["cpu_share"] * UNASKED_SECONDS / alone["claims"]
    yield "  the same for each claim to its end, without requests", each * 1e3, "ms", None
    yield "  memory at the end", found["memory_mib"], "MiB", None
    yield "  rights gained, p50", found["claimed_p50_ms"], "ms", None
    yield "  rights gained, p99", found["claimed_p99_ms"], "ms", MAX_LAG_MS
    yield "  rights lost and the connection cut, p50", found["ended_p50_ms"], "ms", None
    yield "  rights lost and the connection cut, p99", found["ended_p99_ms"], "ms", MAX_LAG_MS
    yield "  claim ready to first allowed request, p50", found["ready_p50_ms"], "ms", None
    yield "  claim ready to first allowed request, p99", found["ready_p99_ms"], "ms", MAX_FIRST_MS


def _reuse(gateway: Gateway) -> Iterator[Row]:
    found = _client(gateway, "reuse", REUSES, seconds=REUSES)
    yield f"requests around {REUSES} reuses of three addresses", found["requests"], "", None
    yield "  recorded under a wrong name", found["wrong"], "", 0
    yield "  not recorded", found["missing"], "", 0
    yield "  answered on a connection of the pod before", found["outlived"], "", 0
