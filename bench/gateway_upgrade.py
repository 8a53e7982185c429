"""A gateway of two replicas, one of which is upgraded and then killed, under 100 requests a second.

The replicas are real `egress serve --kubernetes` beside the API server of the tests, on loopback, and share
their cores with the clients. Four pods make 25 requests a second each, over connections that they keep. One
of them has a stream of a chunk a second open, for as long as the upgrade takes.

    python -m bench gateway_upgrade                              three minutes
    EGRESS_BENCH_SECONDS=10 python -m bench gateway_upgrade      with a stream of ten seconds
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.cluster.replicated_gateway import LoadedPod, ReplicatedGateway, Service
from tests.proxy.lab.upstream_request import UpstreamRequest
from tests.proxy.serve_process import until

type Row = tuple[str, float, str, float | None]

SECONDS: Final = float(os.environ.get("EGRESS_BENCH_SECONDS", "60"))
PODS: Final = 4
PER_SECOND: Final = 25
REST_SECONDS: Final = 3.0
STOP_SECONDS: Final = 5.0
"""The stop begins so long after the stream."""
MAX_FAILOVER_SECONDS: Final = 5.0


def run() -> Iterator[Row]:
    with (
        tempfile.TemporaryDirectory() as folder,
        ReplicatedGateway(Path(folder), f"{SECONDS + 60:g}s") as gateway,
    ):
        yield from asyncio.run(_measured(gateway))


async def _measured(gateway: ReplicatedGateway) -> list[Row]:
    service = Service(gateway)
    pods = [LoadedPod(service, f"job{number}", number % 2, 1 / PER_SECOND, 1000) for number in range(PODS)]
    for number in (0, 1):
        await gateway.become_ready(number)
    for each in pods:
        await gateway.lab.becomes(each.address, 200)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(service.look()), *(group.create_task(each.work()) for each in pods)]
        rows = [*await _upgraded(gateway, pods), *await _killed(gateway, pods)]
        for task in tasks:
            task.cancel()
    return rows


async def _upgraded(gateway: ReplicatedGateway, pods: list[LoadedPod]) -> list[Row]:
    """Stop a replica while a stream is open, and start it again."""
    stopping, began = gateway.replicas[0], time.monotonic()
    streaming = asyncio.create_task(_stream(gateway, pods[0]))
    await asyncio.sleep(STOP_SECONDS)
    stopping.signal(signal.SIGTERM)
    chunks = await streaming
    status = await asyncio.to_thread(stopping.ended)
    took = time.monotonic() - began - STOP_SECONDS
    await _start(gateway)
    await asyncio.sleep(REST_SECONDS)
    answered = sum(len(each.answered) for each in pods)
    return [
        ("upgrade: requests a second", answered / (time.monotonic() - began), "/s", None),
        ("upgrade: requests that failed", sum(len(each.failures) for each in pods), "", 0),
        ("upgrade: requests made again after a close", sum(len(each.retried) for each in pods), "", None),
        ("upgrade: slowest request", 1000 * max(max(each.waits) for each in pods), "ms", None),
        (f"upgrade: chunks missing of a stream of {SECONDS:g} s", SECONDS - chunks, "", 0),
        ("upgrade: the replica ended after the signal", took, "s", None),
        ("upgrade: exit status", status, "", 0),
    ]


async def _killed(gateway: ReplicatedGateway, pods: list[LoadedPod]) -> list[Row]:
    """Kill a replica, and see how long its pods wait for the other one."""
    for each in pods:
        each.waits.clear()
        each.failures.clear()
        # As after a new choice of the node: half of the pods are at each replica.
        await each.drop()
        each.replica = pods.index(each) % 2
    await asyncio.sleep(REST_SECONDS)
    gateway.replicas[0].signal(signal.SIGKILL)
    await asyncio.sleep(MAX_FAILOVER_SECONDS + REST_SECONDS)
    return [
        ("kill: requests that were refused", sum(len(each.failures) for each in pods), "", 0),
        (
            "kill: until the other replica answers",
            max(max(each.waits) for each in pods),
            "s",
            MAX_FAILOVER_SECONDS,
        ),
    ]


async def _start(gateway: ReplicatedGateway) -> None:
    await asyncio.to_thread(gateway.replicas[0].kill)
    await asyncio.to_thread(gateway.replicas[0].start)
    await asyncio.to_thread(until, lambda: gateway.replicas[0].logged("proxy.ready"))
    gateway.find_ready_ports()
    await gateway.become_ready(0)


async def _stream(gateway: ReplicatedGateway, pod: LoadedPod) -> int:
    """Read a stream of a chunk a second, and return how many came."""

    async def serve(visit: UpstreamRequest) -> None:
        length = int(SECONDS)
        await visit.channel.send(f"HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n".encode())
        for _ in range(length):
            await visit.channel.send(b"x")
            await asyncio.sleep(1)

    gateway.lab.upstream.handle("/stream", serve)
    peer = await pod.connect()
    found = 0
    with suppress(OSError):
        await peer.send(f"GET /stream HTTP/1.1\r\nhost: {gateway.lab.host}\r\n\r\n".encode())
        data = b""
        while b"\r\n\r\n" not in data:
            data += await peer.channel.some()
        found = len(data.partition(b"\r\n\r\n")[2])
        while found < int(SECONDS) and (more := await peer.channel.some()):
            found += len(more)
    await peer.channel.drop()
    return found
