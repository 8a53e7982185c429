"""Requests without end while nothing can be recorded: each is refused, and the refusals are folded.

S-67 with S-81: what waits for room on the disk must not be filled by what was never sent. Lines of exchanges
that *were* sent wait there too, and would be dropped.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from tests.faults.faulty_proxy import CERTS, SECRET, rules
from tests.proxy.lab.proxy_stack import NAME, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream

FLOOD = 300
WHOLE = 40
"""Of these so many are written one by one, at most: twice what one second may have."""


def full(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "no space left on device")


async def test_refusals_on_a_full_disk_are_counted_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text(SECRET)
    async with RawUpstream(CERTS.good(NAME)) as upstream:
        text = rules(tmp_path, upstream.port, tls=True)
        async with ProxyStack(tmp_path, CERTS, text) as stack, await stack.visit(upstream) as peer:
            host = f"{NAME}:{upstream.port}"
            assert (await peer.get("/small", host)).status == 200
            with monkeypatch.context() as patch:
                patch.setattr(os, "write", full)
                stack.audit.flush()
                while (await peer.get("/small", host)).status == 200:
                    stack.audit.flush()
                sent = len(upstream.requests)
                for _ in range(FLOOD):
                    response = await peer.get("/small", host)
                    assert response.header("egress-denied") == "audit.stopped"
                assert len(upstream.requests) == sent
                assert len(stack.audit._writer._lines) < sent + WHOLE
            while not stack.audit.may_work("test"):
                stack.audit.tick()
            stack.audit._fold(float("inf"))
            refused = [line for line in stack.exchanges() if line["code"] == "audit.stopped"]
            folded = sum(int(str(line["count"])) for line in stack.lines() if line["event"] == "folded")
            assert len(refused) + folded == FLOOD + 1
