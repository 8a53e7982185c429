"""C25 and C26 without a cluster: a replica of two that stops, or is killed, under load."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.replicated_gateway import LoadedPod, ReplicatedGateway, Service
from tests.proxy.lab.client import Peer
from tests.proxy.lab.raw_upstream import Say, Stall
from tests.proxy.serve_process import until

PODS = 4


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[ReplicatedGateway]:
    with ReplicatedGateway(tmp_path, "60s") as gateway:
        yield gateway


def merged(gateway: ReplicatedGateway, pods: list[LoadedPod]) -> list[dict[str, object]]:
    """Collect the logs of both replicas into one, prove it, and return it once each request is in it."""
    wanted = {path for each in pods for path in each.answered}
    return until(lambda: found if wanted <= set(paths(found := collected(gateway))) else [], "every request")


def paths(lines: list[dict[str, object]]) -> Counter[str]:
    """The paths of the requests of pods."""
    found = (str(line.get("path", "")) for line in lines if line["event"] == "exchange")
    return Counter(path for path in found if path.startswith("/work/"))


def collected(gateway: ReplicatedGateway) -> list[dict[str, object]]:
    served, key = gateway.lab.served, str(gateway.key)
    logs = [str(each.state / "audit") for each in gateway.replicas]
    for words in (
        ("log", "collect", "both", *logs, "--key", key),
        ("log", "verify", "--dir", "both", "--key", key),
    ):
        done = served.egress(*words)
        assert done.status == 0, done.out + done.err
    found = served.egress("log", "query", "--dir", "both", "--json", "--limit", "100000")
    assert found.status == 0, found.err
    return [json.loads(line) for line in found.out.splitlines()]


async def begin(
    gateway: ReplicatedGateway, group: asyncio.TaskGroup, tries: int = 2
) -> tuple[list[LoadedPod], list[asyncio.Task[None]]]:
    for number in (0, 1):
        await gateway.become_ready(number)
    service = Service(gateway)
    pods = [LoadedPod(service, f"job{number}", replica=number % 2, tries=tries) for number in range(PODS)]
    for each in pods:
        await gateway.lab.becomes(each.address, 200)
    tasks = [group.create_task(service.look()), *(group.create_task(each.work()) for each in pods)]
    await asyncio.gather(*(each.works_on(10) for each in pods))
    return pods, tasks


async def stream(gateway: ReplicatedGateway, pod: LoadedPod) -> Peer:
    """Begin a response through the replica of a pod whose end comes when the upstream is released."""
    lab = gateway.lab
    begin, end = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nfirst", b"last"
    lab.upstream.script("/stream", Say(begin), Stall(), Say(end))
    peer = await pod.connect()
    await peer.send(f"GET /stream HTTP/1.1\r\nhost: {lab.host}\r\n\r\n".encode())
    while b"first" not in (await peer.channel.some()):
        pass
    return peer


async def test_a_replica_that_is_upgraded_fails_no_request_and_cuts_no_stream(
    gateway: ReplicatedGateway,
) -> None:
    lab, stopping = gateway.lab, gateway.replicas[0]
    async with asyncio.TaskGroup() as group:
        pods, tasks = await begin(gateway, group)
        streaming = await stream(gateway, pods[0])
        stopping.signal(signal.SIGTERM)
        await asyncio.to_thread(until, lambda: stopping.logged("proxy.stopping"))
        # Each pod has come to the other replica, while the stream goes on at the first.
        async with asyncio.timeout(60):
            while any(each.replica == 0 for each in pods):  # noqa: ASYNC110 - they tell nobody
                await asyncio.sleep(0.05)
        await asyncio.gather(*(each.works_on(10) for each in pods))
        lab.do(lab.upstream.released.set)
        assert await streaming.channel.some() == b"last"
        await streaming.channel.drop()
        assert await asyncio.to_thread(stopping.ended) == 0
        await asyncio.gather(*(each.works_on(10) for each in pods))
        # The next revision, with the same volume and the same name.
        stopping.kill()
        await asyncio.to_thread(stopping.start)
        gateway.find_ready_ports()
        await gateway.become_ready(0)
        await asyncio.gather(*(each.works_on(10) for each in pods))
        for task in tasks:
            task.cancel()
    assert [each.failures for each in pods] == [[]] * PODS
    lines = await asyncio.to_thread(merged, gateway, pods)
    assert set(paths(lines).values()) == {1}
    by = {str(line["replica"]) for line in lines if line["event"] == "exchange"}
    assert by == {"egress-proxy-0", "egress-proxy-1"}
    [streamed] = [line for line in lines if line.get("path") == "/stream"]
    assert (streamed["status"], streamed["code"]) == (200, "rule.allowed")
    assert not [line for line in lines if line["event"] in {"gap", "lost"}]


async def test_a_replica_that_is_killed_is_replaced_by_the_other_and_its_chain_goes_on(
    gateway: ReplicatedGateway,
) -> None:
    killed = gateway.replicas[0]
    async with asyncio.TaskGroup() as group:
        pods, tasks = await begin(gateway, group, tries=1000)
        killed.signal(signal.SIGKILL)
        await asyncio.to_thread(killed.ended)
        async with asyncio.timeout(60):
            while any(each.replica == 0 for each in pods):  # noqa: ASYNC110 - they tell nobody
                await asyncio.sleep(0.05)
        await asyncio.gather(*(each.works_on(10) for each in pods))
        killed.kill()
        await asyncio.to_thread(killed.start)
        gateway.find_ready_ports()
        await gateway.become_ready(0)
        await asyncio.gather(*(each.works_on(10) for each in pods))
        for task in tasks:
            task.cancel()
    # A request is asked again until somebody answers; none is refused.
    assert [each.failures for each in pods] == [[]] * PODS
    answered = [path for each in pods for path in each.answered]

    def judged() -> list[dict[str, object]]:
        lines = collected(gateway)
        missing, lost = set(answered) - set(paths(lines)), sum(line["event"] == "lost" for line in lines)
        # Lines that the kill kept from the disk are lost, and told as such: one for each of those requests,
        # and one for what each pod had under way.
        return lines if len(missing) <= lost <= len(missing) + PODS else []

    lines = await asyncio.to_thread(until, judged, "every request, or its loss")
    assert set(paths(lines).values()) == {1}
