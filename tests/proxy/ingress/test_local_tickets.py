"""Tickets in memory: bounded in all, bound to one sandbox, and gone with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from egress.errors import UsageError
from egress.proxy.ingress import local_tickets
from egress.proxy.ingress.local_tickets import run_identity
from egress.run_ticket import RunTicket
from egress.types import Identity
from tests.proxy.lab.proxy_stack import SANDBOX
from tests.proxy.ticket_runs import NEIGHBOUR, Runs, open_runs


@pytest.fixture
async def runs(tmp_path: Path) -> AsyncIterator[Runs]:
    async with open_runs(tmp_path) as made:
        yield made


def test_a_run_has_what_its_ticket_says_and_else_what_its_sandbox_has() -> None:
    base = Identity("box", "reader", (("env", "test"), ("repo", "acme/a")))
    own = run_identity(base, RunTicket("0" * 64, 1))
    assert (own.sandbox, own.profile, own.parameters) == ("box", "reader", base.parameters)
    other = run_identity(base, RunTicket("0" * 64, 1, "writer", (("repo", "acme/b"),)))
    assert (other.profile, dict(other.parameters)) == ("writer", {"env": "test", "repo": "acme/b"})
    assert own.ticket == other.ticket == "t-0000000000000000"


async def test_tickets_of_all_sandboxes_are_bounded(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_tickets, "MAX_ALL_TICKETS", 2)
    tickets = runs.stack.tickets
    for number, sandbox in enumerate((SANDBOX, NEIGHBOUR)):
        made = RunTicket(f"{number}" * 64, 1)
        tickets.check(Identity(sandbox), made)
        tickets.add(sandbox, made, 60)
    with pytest.raises(UsageError, match="2 tickets already"):
        tickets.check(Identity(SANDBOX), RunTicket("9" * 64, 1))
    runs.clock.more = 61
    tickets.check(Identity(SANDBOX), RunTicket("9" * 64, 1))
    over = [(NEIGHBOUR, "t-" + "1" * 16, "expired"), (SANDBOX, "t-" + "0" * 16, "expired")]
    assert sorted(tickets.over()) == over


async def test_a_ticket_is_live_in_its_sandbox_alone(runs: Runs) -> None:
    tickets = runs.stack.tickets
    tickets.add(SANDBOX, RunTicket("0" * 64, 1), 60)
    name = "t-" + "0" * 16
    assert tickets.is_live(Identity(SANDBOX, ticket=name))
    assert not tickets.is_live(Identity(NEIGHBOUR, ticket=name))
    assert (tickets.has(SANDBOX, name), tickets.has(NEIGHBOUR, name)) == (True, False)
    tickets.forget(NEIGHBOUR)
    assert tickets.is_live(Identity(SANDBOX, ticket=name))
    tickets.forget(SANDBOX)
    assert not tickets.is_live(Identity(SANDBOX, ticket=name))
