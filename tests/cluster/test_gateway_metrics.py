"""Metrics of a proxy of a cluster: the state of its watches, and no sandbox that reads them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from egress.kubernetes.watch_events import WatchKind
from tests.cli.command import put
from tests.cluster.fake_api_server import FakeApiServer
from tests.cluster.gateway_lab import GATEWAY, PODS, GatewayLab
from tests.proxy.test_metrics import told
from tests.unit.kubernetes.watch_samples import plain_pod

TOKEN = "a-token-of-the-operator"
SCRAPER = "127.88.0.1"


@pytest.fixture(scope="module")
def port() -> int:
    with socket.create_server((GATEWAY, 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[GatewayLab]:
    folder = tmp_path_factory.mktemp("gateway")
    put(folder / "token", TOKEN).chmod(0o600)
    with GatewayLab(folder, "--metrics", f"{GATEWAY}:{port}", "--metrics-token-file", "token") as lab:
        yield lab


def scrape(source: str, port: int, token: str = TOKEN) -> str:
    """The answer to a scrape from this address; nothing where not a byte came back."""
    head = f"GET /metrics HTTP/1.1\r\nhost: {GATEWAY}\r\nauthorization: Bearer {token}\r\n\r\n"
    with socket.create_connection((GATEWAY, port), timeout=20, source_address=(source, 0)) as sock:
        try:
            sock.sendall(head.encode())
            return b"".join(iter(lambda: sock.recv(1 << 16), b"")).decode()
        except ConnectionError:
            return ""


def answer_with(server: FakeApiServer, status: int) -> None:
    """Answer so from now on, and break what is open."""
    server.status = status
    server.cut()


async def test_the_pod_of_a_sandbox_reads_no_metrics_though_it_has_the_token(
    lab: GatewayLab, port: int
) -> None:
    name, address = lab.name("job"), lab.address()
    lab.put(PODS, plain_pod(name, 0, address))
    await lab.becomes(address, 200)
    assert (await asyncio.to_thread(scrape, SCRAPER, port)).startswith("HTTP/1.1 200"), "the good twin"
    assert (await asyncio.to_thread(scrape, SCRAPER, port, "no-token-at-all")).startswith("HTTP/1.1 401")
    assert await asyncio.to_thread(scrape, address, port) == ""


async def test_a_pod_of_the_namespace_that_is_no_sandbox_may_scrape(lab: GatewayLab, port: int) -> None:
    bare = plain_pod(lab.name("prometheus"), 0, address := lab.address())
    bare["metadata"]["labels"] = {}
    lab.put(PODS, bare)
    await lab.becomes(address, 403, "identity.unowned")
    assert (await asyncio.to_thread(scrape, address, port)).startswith("HTTP/1.1 200")


async def test_a_lost_watch_is_a_metric_and_still_read_with_the_token(lab: GatewayLab, port: int) -> None:
    async def metrics() -> dict[str, dict[tuple[str, ...], float]]:
        answer = await asyncio.to_thread(scrape, SCRAPER, port)
        return told(answer.partition("\r\n\r\n")[2])

    async def become(count: int) -> dict[str, dict[tuple[str, ...], float]]:
        async with asyncio.timeout(30):
            while sum((found := await metrics())["watch_current"].values()) != count:  # noqa: ASYNC110 - a scrape
                await asyncio.sleep(0.2)
        return found

    found = await become(len(WatchKind))
    assert found["watch_current"].keys() == {(kind.value,) for kind in WatchKind}
    assert max(found["watch_silence_seconds"].values()) < 60
    lost = found["watch_lost_total"][PODS.value,]
    lab.do(lambda: answer_with(lab.server, 500))
    assert (await become(0))["watch_lost_total"][PODS.value,] > lost
    lab.do(lambda: answer_with(lab.server, 200))
    await become(len(WatchKind))
