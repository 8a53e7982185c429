"""What was never sent is not recorded as if it had been."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.proxy.lanes.intercept_limits import InterceptLimits
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.proxy_stack import NAME, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream

certs = Certificates()


def rules(folder: Path, port: int) -> str:
    (folder / "secret").write_text("sesame-open-please\n")
    return f"""
version: 1
secrets:
  api: {{from: "file:{folder}/secret", hosts: ["{NAME}:{port}"]}}
hosts:
  {NAME}:
    ports: [{port}]
    addresses: [127.0.0.1/32]
    allow: all
    inject: [{{bearer: api}}]
"""


async def line_of(folder: Path, upstream: RawUpstream) -> dict[str, object]:
    async with ProxyStack(folder, certs, rules(folder, upstream.port), limits=InterceptLimits()) as stack:
        async with await stack.visit(upstream) as peer:
            await peer.get("/echo", f"{NAME}:{upstream.port}")
        (line,) = stack.exchanges()
        return line


async def test_a_secret_that_was_sent_is_named(tmp_path: Path) -> None:
    async with RawUpstream(certs.good(NAME)) as upstream:
        line = await line_of(tmp_path, upstream)
    assert line["injected"] == [{"secret": "api", "slot": "header:authorization"}]
    assert (line["code"], line["address"]) == ("rule.allowed", "127.0.0.1")


@pytest.mark.parametrize("context", [certs.expired(NAME), certs.wrong_name(), certs.self_signed(NAME)])
async def test_no_secret_is_named_where_the_upstream_did_not_prove_itself(
    tmp_path: Path, context: object
) -> None:
    async with RawUpstream(context) as upstream:  # type: ignore[arg-type]
        line = await line_of(tmp_path, upstream)
        assert upstream.requests == []
    assert line["injected"] == []
    assert (line["code"], line["address"], line["status"]) == ("upstream.tls", "127.0.0.1", 502)
