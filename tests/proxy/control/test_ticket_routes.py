"""Tickets over the control socket: checked, few, recorded before they hold, and ended with a record."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from egress.run_ticket import ticket_digest, ticket_id
from tests.proxy.lab.client import at, dial
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
        if "profile" in body:
            assert reply.body["error"] == "the rules have no profile `admin`"
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


DELEGATED = f"""
delegate:
  - {{id: short, to: {{sandboxes: [{SANDBOX}]}}, ttl: 1m, profiles: [writer]}}
  - {{id: long, to: {{sandboxes: [{SANDBOX}]}}, ttl: 10m, profiles: [writer]}}
  - {{id: stop, to: {{sandboxes: ["*"]}}, ttl: 1d, may: [deny], hosts: ["**.example.test"]}}
"""


async def test_a_client_of_a_port_has_what_is_delegated_and_for_no_longer(tmp_path: Path) -> None:
    async with open_runs(tmp_path, DELEGATED) as runs:
        digest = ticket_digest(new_ticket())
        beyond: list[tuple[str, dict[str, object]]] = [
            (SANDBOX, {"profile": "default"}),
            (SANDBOX, {"profile": "admin"}),
            (SANDBOX, {}),
            (SANDBOX, {"profile": "writer", "params": {"repo": "acme/site"}}),
            (NEIGHBOUR, {"profile": "writer"}),
        ]
        for sandbox, body in beyond:
            reply = await runs.ask("POST", sandbox, digest=digest, ttl=60, delegated=True, **body)
            assert reply.status == 403, body
        assert not runs.lines("ticket.added")
        # The twin: the same rights for the operator, and the delegated ones for a client.
        ticket = await runs.start(ttl=3600, by="the API at the port", delegated=True)
        reply = await runs.ask("POST", SANDBOX, digest=digest, ttl=3600, profile="writer", delegated=True)
        assert (reply.status, reply.body["seconds"]) == (201, 600)
        assert (await runs.start(sandbox=NEIGHBOUR)) != ticket
        assert (await runs.fetch(ticket)).status == 200
        runs.clock.more = 601
        assert (await runs.fetch(ticket)).header("egress-denied") == "ticket.unknown"


async def test_a_ticket_ends_when_its_profile_is_not_delegated_any_more(tmp_path: Path) -> None:
    async with open_runs(tmp_path, DELEGATED) as runs:
        ticket = await runs.start(by="the API at the port", delegated=True)
        own = await runs.start()
        policy = runs.stack.engine.policy
        async with await dial(at(runs.stack.port)) as peer:
            assert (await runs.get(peer, ticket)).status == 200
            runs.stack.engine.policy = replace(policy, delegations=policy.delegations[2:])
            assert (await runs.fetch(ticket)).header("egress-denied") == "ticket.unknown"
            assert (await runs.fetch(own)).status == 200
            runs.routes.expire()
            assert await peer.channel.everything() == b""
        [ended] = runs.lines("ticket.ended")
        assert (ended["reason"], ended["connections"]) == ("undelegated", 1)


async def test_a_client_of_a_port_revokes_its_own_tickets_alone(tmp_path: Path) -> None:
    async with open_runs(tmp_path, DELEGATED) as runs:
        port = "the API at the port"
        ours, theirs = await runs.start(by="the API at the unix socket"), await runs.start(by=port)
        for ticket, status in ((ours, 200), (theirs, 403)):
            name = ticket_id(ticket_digest(ticket))
            assert (await runs.ask("DELETE", SANDBOX, ticket=name, by=port)).status == 200
            assert (await runs.fetch(ticket)).status == status
        # The operator revokes whatever there is.
        assert (await runs.end(ours)).status == 200
        assert (await runs.fetch(ours)).header("egress-denied") == "ticket.unknown"
        unfit: list[dict[str, object]] = [{"ticket": 5}, {"ticket": "t-1", "by": []}, {}]
        for body in unfit:
            assert (await runs.ask("DELETE", SANDBOX, **body)).status == 400
