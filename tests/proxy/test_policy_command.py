"""`egress policy` and `egress explain --sandbox` with a proxy of their own, and its real sandbox."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.proxy.injecting_proxy import BLIND, NAME, SECRET, certs, made, visit
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.serve_process import ServeProcess, until

HOST = "allow: [{id: read, methods: [GET], paths: [/echo]}]"
DELEGATE = """
delegate:
  - {{id: writes, to: {{sandboxes: [default]}}, ttl: 10m, hosts: [{name}], ports: [{port}], methods: [POST]}}
"""


@pytest.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with RawUpstream(certs.good(NAME, BLIND)) as upstream:
        yield upstream


async def post(served: ServeProcess, upstream: RawUpstream) -> tuple[int, bytes]:
    async with await visit(served, upstream) as peer:
        host = f"{NAME}:{upstream.port}"
        head = (
            f"POST /echo HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer mine\r\ncontent-length: 0\r\n\r\n"
        )
        found = await peer.request(head.encode())
    return found.status, found.body


async def test_a_request_is_allowed_for_a_second_and_explained(tmp_path: Path, upstream: RawUpstream) -> None:
    def explain() -> dict[str, object]:
        outcome = served.egress(
            "explain", "POST", url, "--sandbox", "default", "--rules", "hosts.yaml", "--json"
        )
        found: dict[str, object] = json.loads(outcome.out)
        return found

    with made(tmp_path, upstream, host=HOST) as served:
        url = f"https://{NAME}:{upstream.port}/echo"
        served.write(served.rules.read_text() + DELEGATE.format(name=NAME, port=upstream.port))
        await asyncio.to_thread(served.recorded, "reloaded")
        assert (await post(served, upstream))[0] == 403
        assert (await asyncio.to_thread(explain))["code"] == "rule.none"
        beyond = await asyncio.to_thread(served.egress, "policy", "default", "--deny", url)
        assert (beyond.status, "do not delegate this" in beyond.err) == (1, True)

        granted = await asyncio.to_thread(
            served.egress, "policy", "default", "--allow", f"POST {url}", "--ttl", "10m"
        )
        assert granted.status == 0, granted.err
        status, echoed = await post(served, upstream)
        assert status == 200
        assert SECRET.encode() not in upstream.links[-1].heads[-1]
        assert b"mine" not in echoed
        found = await asyncio.to_thread(explain)
        assert (found["verdict"], found["inject"], found["delegation"]) == ("allow", [], "writes")

        shown = await asyncio.to_thread(served.egress, "policy", "default", "--json")
        (grant,) = json.loads(shown.out)["grants"]
        undone = await asyncio.to_thread(served.egress, "policy", "default", "--undo", grant["id"])
        assert undone.status == 0
        assert (await post(served, upstream))[0] == 403

        # The tick of the process ends a grant without anybody's help.
        assert (
            await asyncio.to_thread(
                served.egress, "policy", "default", "--allow", f"POST {url}", "--ttl", "1s"
            )
        ).status == 0
        (over,) = await asyncio.to_thread(served.recorded, "grant.expired")
        assert over["sandbox"] == "default"
        assert (await post(served, upstream))[0] == 403
        until(lambda: len(served.records("granted")) == 2)
        assert len(served.records("grant.refused")) == 1
