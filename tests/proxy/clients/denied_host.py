"""A host that no rule names: what its user is shown of that, and that nothing else happens.

The proxy ends the TLS of the client and answers with the reason. What of that is shown differs: the body, the
reason phrase of the status line, or what the program makes of a header. `denied=` of the client has it.
"""

from __future__ import annotations

from dataclasses import replace

from tests.proxy.clients.client import Client
from tests.proxy.clients.program import Ran
from tests.proxy.clients.stage import Stage
from tests.proxy.lab.proxy_stack import ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream

NOWHERE = "elsewhere.example.test"
REASON = "403 Egress host.unknown (egress log suggest ID)"
"""What most libraries show: the status line, with the command that tells the operator more."""


async def host(stage: Stage[RawUpstream], client: Client) -> None:
    """The client fails and prints what is declared of it, with the id that the log has."""
    ran = await stage.ask(client, "get", "/small", NOWHERE)
    shown(stage, client, ran)


def shown(stage: Stage[RawUpstream], client: Client, ran: Ran) -> None:
    """Hold what a client printed to what is declared of it, and the record to a denial."""
    assert ran.status != 0, ran
    assert not stage.scene.upstream.links
    is_shown(stage.scene.stack, client.denied, ran.text + ran.err)


def is_shown(stack: ProxyStack, declared: str, printed: str) -> None:
    """The text is there, with the id of a denial; each denial is in the log once."""
    lines = stack.lines()
    assert {(line["event"], line["host"], line["code"], line["verdict"]) for line in lines} == {
        ("exchange", NOWHERE, "host.unknown", "deny")
    }
    ids = [str(line["request"]) for line in lines]
    assert len(set(ids)) == len(ids)
    assert any(declared.replace("ID", each) in printed for each in ids), printed


def elsewhere(client: Client, variable: str) -> Client:
    """The client, told by this variable to look on a host that no rule names."""
    return replace(client, variables=client.variables | {variable: f"https://{NOWHERE}/"})
