"""A host that no rule names is refused before there is any TLS: what the user is shown of that.

The reason stands in the first line and in a header of the answer to CONNECT. Some clients keep both to
themselves; then the log is what tells.
"""

from __future__ import annotations

from tests.proxy.clients.client import Client
from tests.proxy.clients.program import Ran
from tests.proxy.clients.stage import Stage
from tests.proxy.lab.raw_upstream import RawUpstream

NOWHERE = "elsewhere.example.test"


async def host(stage: Stage[RawUpstream], client: Client) -> None:
    """The client fails, and what it prints names the code."""
    ran = await _asked(stage, client)
    assert "host.unknown" in ran.text + ran.err, ran


async def host_in_silence(stage: Stage[RawUpstream], client: Client, shown: str) -> None:
    """The client fails and prints this, and no reason."""
    ran = await _asked(stage, client)
    assert shown in ran.err, ran
    assert "host.unknown" not in ran.text + ran.err


async def _asked(stage: Stage[RawUpstream], client: Client) -> Ran:
    ran = await stage.ask(client, "get", "/small", NOWHERE)
    assert ran.status != 0
    assert not stage.scene.upstream.links
    lines = stage.scene.stack.lines()
    assert {(line["event"], line["host"], line["code"]) for line in lines} == {
        ("refusal", NOWHERE, "host.unknown")
    }
    return ran
