"""A secret from a Secret of the cluster: used, changed without a restart, missing when it is deleted."""

from __future__ import annotations

import asyncio
import base64
import shutil
from pathlib import Path

from tests.cluster.fake_api_server import running
from tests.cluster.fake_object_server import FakeObjectServer, until
from tests.proxy.injecting_proxy import NAME, certs, rules, visit
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.pod_proxy import PodProxy

FIRST, SECOND, OTHER = "canary-first-7f3a9c1e2b", "canary-second-5d8e0f4a6c", "canary-other-9b1c3d5e7f"


def data(value: str) -> dict[str, str]:
    return {"tracker": base64.b64encode(value.encode()).decode(), "other": OTHER}


async def test_a_secret_of_the_cluster_changes_without_a_restart_and_is_never_shown(tmp_path: Path) -> None:
    server = FakeObjectServer()
    server.set("secrets", "tokens", data(FIRST))
    account = tmp_path / "account"
    account.mkdir()
    async with RawUpstream(certs.good(NAME)) as upstream, running(account, server) as api:
        arguments = ["--upstream-ca", str(certs.write_ca(tmp_path / "ca.pem"))]
        arguments += ["--resolve", f"{NAME}=127.0.0.1", "--log-level", "debug"]
        text = rules(upstream.port, "k8s:tokens/tracker")
        served = PodProxy(tmp_path, api, arguments, text)
        await asyncio.to_thread(served.start)
        try:

            async def sent() -> tuple[int, str]:
                """The status of a request, and the credential that the upstream had with it."""
                before = len(upstream.links)
                async with await visit(served, upstream) as peer:
                    status = (await peer.get("/echo", f"{NAME}:{upstream.port}")).status
                heads = b"".join(head for link in upstream.links[before:] for head in link.heads)
                return status, heads.partition(b"Bearer ")[2].partition(b"\r\n")[0].decode()

            assert await sent() == (200, FIRST)
            server.set("secrets", "tokens", data(SECOND))
            await until(lambda: len(served.logged("secret.resolved")) >= 2)
            for _ in range(3):
                assert await sent() == (200, SECOND)
            server.delete("secrets", "tokens")
            await until(lambda: served.logged("secret.unavailable"))
            assert await sent() == (403, "")
            refused = (await asyncio.to_thread(served.recorded, "exchange", 5))[-1]
            assert refused["code"] == "secret.unavailable"
            server.set("secrets", "tokens", data(FIRST))
            await until(lambda: len(served.logged("secret.resolved")) >= 3)
            assert await sent() == (200, FIRST)
            status = await asyncio.to_thread(served.ask, "GET", "/status")
            doctor = await asyncio.to_thread(served.egress, "status", "--runtime-dir", str(served.runtime))
            process = [
                Path(f"/proc/{served.process.pid}/{name}").read_bytes()  # noqa: ASYNC240
                for name in ("environ", "cmdline")
            ]
        finally:
            await asyncio.to_thread(served.kill)
            shutil.rmtree(served.runtime)
    kept = b"".join(path.read_bytes() for path in served.state.rglob("*") if path.is_file())
    said = f"{served.out} {served.err} {status} {doctor} {server.events} {process} {kept!r}"
    for value in (FIRST, SECOND, OTHER):
        assert value not in said
        assert base64.b64encode(value.encode()).decode() not in said
    # The search finds what is there.
    assert "k8s:tokens/tracker" in text
    assert "tracker" in said
