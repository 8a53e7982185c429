"""From the page of a denied host to the rule that would allow it, with the proxy that people run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.proxy.injecting_proxy import NAME, certs, denied, made, visit
from tests.proxy.lab.client import RefusedError, at, connect
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.serve_process import ServeProcess

EVIL = "evil.example.test"


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(certs.good(NAME, EVIL)) as upstream:
        yield upstream


async def suggested(served: ServeProcess, command: str) -> str:
    """What the command that the page names prints."""
    program, *words = command.split()
    assert program == "egress"
    ran = await asyncio.to_thread(served.egress, *words, "--rules", "hosts.yaml")
    assert ran.status == 0, ran
    return ran.out


async def test_the_command_on_the_page_prints_the_rule_that_allows_the_request(
    tmp_path: Path, upstream: RawUpstream
) -> None:
    with made(tmp_path, upstream) as served:
        page = await denied(served, upstream, EVIL)
        command = page.start.partition("(")[2].rstrip(")")
        assert command == f"egress log suggest {page.header('egress-request')}"
        await asyncio.to_thread(served.recorded, "exchange")
        told = await suggested(served, command)
        assert f"GET https://{EVIL}:{upstream.port}/" in told
        assert f"{EVIL}:" in told
        assert "with this change, the verdict is allow" in told
        async with await visit(served, upstream) as peer:
            assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200, "the control"


@pytest.mark.parametrize("arguments", [(), ("--denied-tls", "refuse")], ids=["page", "refuse"])
async def test_a_refusal_at_the_connect_names_a_command_too(
    tmp_path: Path, upstream: RawUpstream, arguments: tuple[str, ...]
) -> None:
    served = made(tmp_path, upstream)
    served.arguments += arguments
    with served:
        with pytest.raises(RefusedError) as caught:
            await connect(at(443 if arguments else 22), EVIL, None, proxy=at(served.port))
        page = caught.value.response
        (line,) = await asyncio.to_thread(served.recorded, "refusal")
        assert line["connection"] == page.header("egress-request")
        told = await suggested(served, f"egress log suggest {page.header('egress-request')}")
        assert f"connect {EVIL}:" in told
