"""Tickets over the control socket: checked, few, recorded before they hold, and ended with a record."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from egress.run_ticket import ticket_digest
from tests.proxy.lab.proxy_stack import SANDBOX
from tests.proxy.ticket_runs import NEIGHBOUR, Runs, new_ticket, open_runs


@pytest.fixture
async def runs(tmp_path: Path) -> AsyncIterator[Runs]:
    async with open_runs(tmp_path) as made:
        yield made


async def test_a_ticket_cannot_ask_for_what_the_rules_do_not_have(runs: Runs) -> None:
    digest = ticket_digest(new_ticket())
    beyond: list[dict[str, object]] = [
        {"profile": "admin"},
        {"params": {"repo": "evil/site"}},
        {"params": {"nothing": "x"}},
    ]
    for body in beyond:
        reply = await runs.ask("POST", SANDBOX, digest=digest, ttl=60, **body)
        assert reply.status == 409, body
    unfit: list[dict[str, object]] = [
        {"ttl": 0},
        {"ttl": 10**6},
        {"ttl": True},
        {"ttl": 5, "digest": "x"},
        {"ttl": 5, "extra": 1},
    ]
    for body in unfit:
        assert (await runs.ask("POST", SANDBOX, **{"digest": digest, **body})).status == 400
    assert (await runs.ask("POST", "nobody", digest=digest, ttl=5)).status == 404


async def test_tickets_are_few_and_those_that_are_over_make_room(runs: Runs) -> None:
    tickets = [await runs.start() for _ in range(32)]
    digest = ticket_digest(new_ticket())
    full = await runs.ask("POST", SANDBOX, digest=digest, profile="writer", ttl=60)
    assert full.status == 409
    assert "32 tickets" in str(full.body["error"])
    await runs.start(sandbox=NEIGHBOUR)
    await runs.end(tickets[0])
    await runs.start()
    runs.clock.more = 61
    await runs.start()


async def test_a_sandbox_cannot_end_the_ticket_of_another_and_takes_its_own_with_it(runs: Runs) -> None:
    ticket = await runs.start()
    assert (await runs.end(ticket, NEIGHBOUR)).body == {"connections": 0}
    assert (await runs.fetch(ticket)).status == 200
    runs.stack.tickets.forget(SANDBOX)
    assert (await runs.fetch(ticket)).header("egress-denied") == "ticket.unknown"


async def test_a_ticket_that_cannot_be_recorded_does_not_hold(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticket = new_ticket()
    body = {"digest": ticket_digest(ticket), "profile": "writer", "ttl": 60}
    with monkeypatch.context() as patch:
        patch.setattr(runs.stack.audit, "may_work", lambda _: False)
        assert (await runs.ask("POST", SANDBOX, **body)).status == 503
    assert (await runs.fetch(ticket)).header("egress-denied") == "ticket.unknown"
    # The twin: with the log, the same ticket holds.
    assert (await runs.ask("POST", SANDBOX, **body)).status == 201
    assert (await runs.fetch(ticket)).status == 200
    assert (await runs.ask("POST", SANDBOX, **body)).status == 409
