"""A gateway that stops is not ready at once, serves on for a while, and ends what is left with a record."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

from tests.cluster.gateway_lab import PODS, GatewayLab, outcome, readiness
from tests.proxy.injecting_proxy import BLIND
from tests.proxy.lab.raw_upstream import Say, Stall
from tests.proxy.serve_process import until
from tests.unit.kubernetes.watch_samples import plain_pod


async def becomes_ready(port: int) -> None:
    async with asyncio.timeout(20):
        while (await readiness(port))[0] != 200:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.02)


async def test_clients_of_every_kind_outlive_the_signal_and_go_elsewhere(tmp_path: Path) -> None:
    with GatewayLab(tmp_path, "--ready", "127.0.0.1:0", "--drain", "4s") as lab:
        port = int(str(until(lambda: lab.served.logged("proxy.ready"))[0]["ready"]).rpartition(":")[2])
        await becomes_ready(port)
        address = lab.address()
        lab.put(PODS, plain_pod("job", 0, address))
        await lab.becomes(address, 200)
        async with (
            await lab.visit(address) as kept,
            await lab.visit(address) as streaming,
            await lab.visit(address, BLIND) as tunnel,
        ):
            assert outcome(await kept.get("/echo", lab.host)) == (200, "")
            lab.upstream.script("/stall", Stall(), Say(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone"))
            await streaming.send(f"GET /stall HTTP/1.1\r\nhost: {lab.host}\r\n\r\n".encode())
            assert outcome(await tunnel.get("/echo", lab.host)) == (200, "")
            began = time.monotonic()
            lab.served.signal(signal.SIGTERM)
            until(lambda: lab.served.logged("proxy.stopping"))
            assert await readiness(port) == (503, "it is stopping\n")
            # Whoever comes is served; each answer ends its connection.
            assert await lab.ask(address) == (200, "")
            response = await kept.get("/echo", lab.host)
            assert (response.status, response.header("connection")) == (200, "close")
            assert outcome(await tunnel.get("/echo", lab.host)) == (200, "")
            # The stream that does not end, and the tunnel, are cut at the end of the time.
            assert await tunnel.channel.some() == b""
            assert await asyncio.to_thread(lab.served.ended) == 0
            assert 3.5 < time.monotonic() - began < 15
        [line] = lab.lines("tunnel", pod="job")
        assert line["code"] == "proxy.stopping"
        assert lab.lines("exchange", pod="job", path="/stall")[0]["code"] == "proxy.stopping"
