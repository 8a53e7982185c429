"""The query of a request in the log of a whole proxy: names, the values that a rule keeps, and no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.review import Filters, Index
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.proxy_stack import NAME, OTHER, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream

CERTS = Certificates()
SECRET = "sesame-open-please-42"
ELSEWHERE = "another-secret-altogether-7"


def rules(folder: Path, port: int) -> str:
    (folder / "here").write_text(SECRET)
    (folder / "there").write_text(ELSEWHERE)
    return f"""
version: 1
secrets:
  api: {{from: "file:{folder}/here", hosts: ["{NAME}:{port}"]}}
  far: {{from: "file:{folder}/there", hosts: [{OTHER}]}}
hosts:
  {NAME}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow:
      - {{id: search, paths: [/echo], audit: {{query: [page, q]}}}}
      - {{id: plain, paths: [/small]}}
    inject: [{{bearer: api}}]
"""


@pytest.mark.parametrize(
    ("target", "recorded"),
    [
        ("/echo?page=2&q=a%20b&token=abc", {"page": ["2"], "q": ["a b"], "token": []}),
        (f"/echo?page=2&q=x{SECRET}", {"page": ["2"], "q": ["***"]}),
        (f"/echo?q={ELSEWHERE}&page=3", {"q": ["***"], "page": ["3"]}),
        (f"/echo?{ELSEWHERE}=1&page=3", {"***": [], "page": ["3"]}),
        ("/small?page=2", {"page": []}),
        ("/elsewhere?page=2", {"page": []}),
        ("/echo", None),
    ],
)
async def test_the_record_has_what_the_rules_keep(
    tmp_path: Path, target: str, recorded: dict[str, list[str]] | None
) -> None:
    async with (
        RawUpstream(CERTS.good(NAME)) as upstream,
        ProxyStack(tmp_path, CERTS, rules(tmp_path, upstream.port)) as stack,
    ):
        await stack.secrets.resolve(stack.engine.policy.secrets.values())
        async with await stack.visit(upstream) as peer:
            await peer.get(target, f"{NAME}:{upstream.port}")
        (line,) = stack.exchanges()
        text = str(stack.lines())
    assert line.get("query") == recorded
    assert "query" in line or recorded is None, "a line without a query has the bytes that it always had"
    assert SECRET not in text
    assert ELSEWHERE not in text


async def test_a_kept_value_is_found_by_its_text(tmp_path: Path) -> None:
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        async with ProxyStack(tmp_path, CERTS, rules(tmp_path, upstream.port)) as stack:
            async with await stack.visit(upstream) as peer:
                await peer.get("/echo?q=needle-in-hay", f"{NAME}:{upstream.port}")
                await peer.get("/echo?q=other", f"{NAME}:{upstream.port}")
            stack.audit.flush()
        with Index(tmp_path / "audit", reserve=0) as index:
            index.catch_up()
            found = index.query(Filters(grep="NEEDLE-in")).entries
            assert [entry.fields["query"] for entry in found] == [{"q": ["needle-in-hay"]}]
