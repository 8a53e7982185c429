"""A secret that is too short to be searched for goes out only where a rule says `scrub: off`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cli.command import put
from tests.proxy.injecting_proxy import NAME, certs, made, visit
from tests.proxy.lab.raw_upstream import RawUpstream

SHORT = "abc12"


@pytest.mark.parametrize(("host", "status"), [("allow: all\n    scrub: off", 200), ("allow: all", 403)])
async def test_a_short_secret_needs_a_rule_that_says_so(host: str, status: int, tmp_path: Path) -> None:
    async with RawUpstream(certs.good(NAME)) as upstream:
        source = f"file:{put(tmp_path / 'short', SHORT)}"
        with made(tmp_path, upstream, source=source, host=host) as served:
            async with await visit(served, upstream) as peer:
                for _ in range(2):
                    response = await peer.get("/echo", f"{NAME}:{upstream.port}")
                    assert response.status == status
            records = await asyncio.to_thread(served.recorded, "exchange", 2)
            told = served.logged("secret.unavailable")
        sent = [head for link in upstream.links for head in link.heads]
    if status == 200:
        assert all(f"Bearer {SHORT}\r\n".encode() in head for head in sent)
        assert len(sent) == 2
        assert told == [], "nothing is amiss"
    else:
        assert sent == []
        assert {record["code"] for record in records} == {"secret.unavailable"}
        assert "`scrub: off`" in str(told[0]["cure"])


async def test_only_the_rule_that_says_so_gets_it(tmp_path: Path) -> None:
    """One entry, two rules: the strictest of those that allow a request holds."""
    host = """allow:
      - {id: open, paths: ["/echo"], scrub: off}
      - {id: shut, paths: ["/other"]}"""
    async with RawUpstream(certs.good(NAME)) as upstream:
        source = f"file:{put(tmp_path / 'short', SHORT)}"
        with made(tmp_path, upstream, source=source, host=host) as served:
            async with await visit(served, upstream) as peer:
                assert (await peer.get("/echo", f"{NAME}:{upstream.port}")).status == 200
                assert (await peer.get("/other", f"{NAME}:{upstream.port}")).status == 403
        assert len([head for link in upstream.links for head in link.heads]) == 1
