"""The whole proxy, over sockets: values that become known, or are taken away, while answers run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.proxy_stack import NAME, OTHER, ProxyStack, policy_of
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.lab.upstream_request import UpstreamRequest

OLD, NEW = b"sesame-open-please-1234", b"brand-new-secret-value-9876"


class Memory(RawUpstream):
    """An upstream that remembers what it was sent, and writes that into an answer that has begun before."""

    def __init__(self, certs: Certificates) -> None:
        super().__init__(certs.good(NAME))
        self.seen = ""
        self.sees = asyncio.Event()
        self.handle("/note", self._note)
        self.handle("/recall", self._recall)
        self.handle("/late", self._late)

    async def _note(self, visit: UpstreamRequest) -> None:
        await visit.body()
        self.seen = visit.authorization
        self.sees.set()
        await visit.answer(b"noted")

    async def _recall(self, visit: UpstreamRequest) -> None:
        await visit.body()
        await visit.answer(b"you sent " + self.seen.encode())

    async def _late(self, visit: UpstreamRequest) -> None:
        await visit.body()
        await visit.begin("200 OK", (("transfer-encoding", "chunked"),))
        await visit.chunk(b"begin\n")
        await self.sees.wait()
        await visit.chunk(b"you sent " + self.seen.encode() + b" now\n")
        await visit.end_chunks()


def rules(upstream: RawUpstream, file: Path | None, host: str = NAME) -> str:
    port = upstream.port
    secret = f'secrets:\n  api: {{from: "file:{file}", hosts: ["{host}:{port}"]}}' if file else ""
    here = f"""
  {NAME}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow:
      - {{id: open, paths: ["/late", "/recall"]}}
      - {{id: note, paths: ["/note"]}}
"""
    if file and host == NAME:
        here += "    inject: [{bearer: api, for: [note]}]\n"
    elsewhere = (
        f"  {OTHER}: {{ports: [{port}], allow: all, inject: [bearer: api]}}\n" if host == OTHER else ""
    )
    return f"version: 1\n{secret}\nhosts:{here}{elsewhere}"


async def reload(stack: ProxyStack, text: str) -> None:
    policy = policy_of(text)
    stack.engine.swap(policy)
    await stack.secrets.warm(policy.secrets.values())


@pytest.mark.parametrize("has_value", [True, False], ids=["another value", "the first value"])
async def test_a_value_that_comes_while_an_answer_runs_is_masked_in_it(
    tmp_path: Path, *, has_value: bool
) -> None:
    certs = Certificates()
    before, after = tmp_path / "before", tmp_path / "after"
    if has_value:
        before.write_bytes(OLD)
    after.write_bytes(NEW)
    async with Memory(certs) as upstream, ProxyStack(tmp_path, certs, rules(upstream, before)) as stack:
        host = f"{NAME}:{upstream.port}"
        older, newer = await stack.visit(upstream), await stack.visit(upstream)
        await older.send(f"GET /late HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        await older.channel.until(b"begin")
        await reload(stack, rules(upstream, after))
        assert (await newer.get("/note", host)).body == b"noted"
        assert upstream.seen == f"Bearer {NEW.decode()}"
        said = await older.channel.until(b"0\r\n\r\n")
        assert b"you sent Bearer " + b"*" * len(NEW) + b" now\n" in said
        await older.channel.drop()
        await newer.channel.drop()


@pytest.mark.parametrize("where", ["", OTHER], ids=["removed", "bound elsewhere"])
async def test_a_secret_that_is_taken_away_is_masked_where_it_was_sent(tmp_path: Path, where: str) -> None:
    certs = Certificates()
    file = tmp_path / "secret"
    file.write_bytes(OLD)
    async with Memory(certs) as upstream, ProxyStack(tmp_path, certs, rules(upstream, file)) as stack:
        host = f"{NAME}:{upstream.port}"
        peer = await stack.visit(upstream)
        await peer.get("/note", host)
        await peer.channel.drop()
        await reload(stack, rules(upstream, file if where else None, where or NAME))
        peer = await stack.visit(upstream)
        assert (await peer.get("/recall", host)).body == b"you sent Bearer " + b"*" * len(OLD)
        upstream.seen = "nothing of this kind"
        assert (await peer.get("/recall", host)).body == b"you sent nothing of this kind"
        await peer.channel.drop()
