"""Tickets of runs: stolen, guessed, outlived, lent, sent to an upstream, beyond what may be had."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from egress.rules.compile.grants import request_terms
from egress.rules.decide.overlay import Grant, GrantTerms, Overlay
from egress.run_ticket import ticket_digest, ticket_id
from egress.types import Identity, Place
from egress.wrong_tokens import MAX_WRONG_TOKENS
from tests.proxy.lab.channel import EndedError
from tests.proxy.lab.client import RefusedError, dial
from tests.proxy.lab.proxy_stack import NAME, OTHER, SANDBOX
from tests.proxy.ticket_runs import NEIGHBOUR, Runs, credentials, new_ticket, open_runs


@pytest.fixture
async def runs(tmp_path: Path) -> AsyncIterator[Runs]:
    async with open_runs(tmp_path) as made:
        yield made


async def test_a_run_has_the_rights_of_its_ticket_and_its_sandbox_has_not(runs: Runs) -> None:
    assert (await runs.fetch()).header("egress-denied") == "profile.excluded"
    ticket = await runs.start()
    assert (await runs.fetch(ticket)).status == 200
    async with await runs.secure(ticket) as peer:
        assert (await peer.get("/echo", f"{NAME}:{runs.tls.port}")).status == 200
    async with await runs.secure(ticket, OTHER) as peer:
        assert (await peer.get("/echo", OTHER)).status == 200
    with pytest.raises(RefusedError):
        await runs.secure("", OTHER)
    name = ticket_id(ticket_digest(ticket))
    assert [(line["ticket"], line["profile"]) for line in runs.stack.exchanges()] == [(name, "writer")] * 2
    [added] = runs.lines("ticket.added")
    assert (added["sandbox"], added["ticket"], added["profile"]) == (SANDBOX, name, "writer")


async def test_a_ticket_that_was_stolen_by_another_sandbox_is_refused_there(runs: Runs) -> None:
    ticket = await runs.start()
    stolen = await runs.fetch(ticket, runs.neighbour_port)
    assert (stolen.status, stolen.header("egress-denied")) == (403, "ticket.foreign")
    [line] = runs.lines("refusal")
    assert (line["sandbox"], line["code"]) == (NEIGHBOUR, "ticket.foreign")
    assert (await runs.fetch(ticket)).status == 200


async def test_a_ticket_is_dead_after_its_run(runs: Runs) -> None:
    ticket, other = await runs.start(), await runs.start()
    assert (await runs.fetch(ticket)).status == 200
    assert (await runs.end(ticket)).status == 200
    assert (await runs.fetch(ticket)).header("egress-denied") == "ticket.unknown"
    # Never taken for none: a sandbox may do other things than a run in it.
    assert (await runs.fetch(other)).status == 200


async def test_a_ticket_is_dead_after_its_time_and_so_is_what_came_with_it(runs: Runs) -> None:
    ticket = await runs.start(ttl=60)
    async with await dial(runs.stack.proxy) as peer:
        assert (await runs.get(peer, ticket)).status == 200
        runs.clock.more = 59
        assert (await runs.get(peer, ticket)).status == 200
        runs.clock.more = 61
        runs.routes.expire()
        with pytest.raises(EndedError):
            await runs.get(peer, ticket)
    assert (await runs.fetch(ticket)).header("egress-denied") == "ticket.unknown"
    [ended] = runs.lines("ticket.ended")
    assert (ended["reason"], ended["connections"]) == ("expired", 1)


async def test_the_end_of_a_ticket_cuts_connections_that_are_kept_and_tunnels(runs: Runs) -> None:
    ticket, other = await runs.start(), await runs.start()
    async with (
        await dial(runs.stack.proxy) as kept,
        await runs.secure(ticket) as read,
        await runs.secure(ticket, OTHER) as unread,
        await runs.secure(other, OTHER) as stays,
    ):
        assert (await runs.get(kept, ticket)).status == 200
        for peer, host in ((read, f"{NAME}:{runs.tls.port}"), (unread, OTHER), (stays, OTHER)):
            assert (await peer.get("/echo", host)).status == 200
        assert (await runs.end(ticket)).body == {"connections": 3}
        for peer, host in ((read, f"{NAME}:{runs.tls.port}"), (unread, OTHER)):
            with pytest.raises((EndedError, OSError)):
                await peer.get("/echo", host)
        with pytest.raises((EndedError, OSError)):
            await runs.get(kept, ticket)
        assert (await stays.get("/echo", OTHER)).status == 200


async def test_a_tunnel_that_waits_for_its_first_byte_does_not_outlive_the_ticket(runs: Runs) -> None:
    ticket = await runs.start()
    async with await dial(runs.stack.proxy) as peer:
        host = f"{NAME}:{runs.tls.port}"
        opened = await peer.request(
            f"CONNECT {host} HTTP/1.1\r\nhost: {host}\r\n{credentials(ticket)}\r\n".encode()
        )
        assert opened.status == 200
        await runs.end(ticket)
        with pytest.raises((EndedError, OSError)):
            await peer.channel.to_tls(runs.stack.trust("http/1.1"), NAME)
    assert [line["code"] for line in runs.lines("refusal")] == ["ticket.ended"]
    assert runs.tls.requests == []


async def test_a_connection_does_not_lend_its_ticket_to_a_request_without_or_with_another(runs: Runs) -> None:
    writer, reader = await runs.start(), await runs.start("default")
    async with await dial(runs.stack.proxy) as peer:
        assert (await runs.get(peer, writer)).status == 200
        assert (await runs.get(peer, reader)).header("egress-denied") == "profile.excluded"
    async with await dial(runs.stack.proxy) as peer:
        assert (await runs.get(peer, writer)).status == 200
        assert (await runs.get(peer)).header("egress-denied") == "profile.excluded"
    assert len(runs.plain.requests) == 2


async def test_guesses_are_refused_and_soon_told_to_wait_and_the_right_ticket_is_not(runs: Runs) -> None:
    ticket = await runs.start()
    almost = ticket[:-1] + ("A" if ticket[-1] != "A" else "B")
    guesses = [almost, ticket[:-1], ticket + "A", ticket.lower(), *(new_ticket() for _ in range(20))]
    runs.clock.moment = runs.clock.monotonic()
    codes = [(await runs.fetch(guess)).header("egress-denied") for guess in guesses]
    many = len(guesses) - MAX_WRONG_TOKENS
    assert codes == ["ticket.unknown"] * MAX_WRONG_TOKENS + ["limit.requests"] * many
    assert (await runs.fetch(ticket)).status == 200
    # Another sandbox has a count of its own.
    assert (await runs.fetch(almost, runs.neighbour_port)).header("egress-denied") == "ticket.unknown"


async def test_two_tickets_are_none(runs: Runs) -> None:
    writer, other = await runs.start(), await runs.start()
    host = f"{NAME}:{runs.plain.port}"
    async with await dial(runs.stack.proxy) as peer:
        answer = await peer.get(f"http://{host}/echo", host, credentials(writer) + credentials(other))
    assert answer.header("egress-denied") == "ticket.unknown"


async def test_other_credentials_for_the_proxy_are_none(runs: Runs) -> None:
    """As before: nobody asks for them, and they choose nothing."""
    assert (await runs.fetch("somebody")).header("egress-denied") == "profile.excluded"


async def test_a_ticket_where_it_does_not_belong_gives_nothing_and_is_not_recorded(runs: Runs) -> None:
    ticket = await runs.start()
    host = f"{NAME}:{runs.plain.port}"
    async with await dial(runs.stack.proxy) as peer:
        answer = await peer.get(f"http://{ticket}@{host}/echo", host)
        assert answer.header("egress-denied") == "request.malformed"
    async with await dial(runs.stack.proxy) as peer:
        field = f"authorization: Basic {base64.b64encode(f'{ticket}:'.encode()).decode()}\r\n"
        answer = await peer.get(f"http://{host}/echo", host, field)
        assert answer.header("egress-denied") == "profile.excluded"
    async with await dial(runs.stack.proxy) as peer:
        answer = await peer.request(f"CONNECT {ticket}_:1 HTTP/1.1\r\nhost: {ticket}_:1\r\n\r\n".encode())
        assert answer.header("egress-denied") == "host.unknown"
    assert runs.lines("refusal")[-1]["host"] == "egress-run-..."
    async with await dial(runs.stack.proxy) as peer:
        answer = await peer.request(f"CONNECT {ticket}! HTTP/1.1\r\nhost: {ticket}!\r\n\r\n".encode())
        assert answer.status == 400
    # In a path of a request that is allowed to be recorded: the record has no ticket, see the fixture.
    async with await dial(runs.stack.proxy) as peer:
        await peer.get(f"http://{host}/{ticket}?{ticket}={ticket}", host, credentials(ticket))
    recorded = [str(line["path"]) for line in runs.stack.exchanges()]
    assert recorded == ["/egress-run-..."]


async def test_a_ticket_inside_of_a_tunnel_is_not_sent_on(runs: Runs) -> None:
    """The fixture looks at all that the upstreams have received."""
    ticket = await runs.start()
    async with await runs.secure(ticket) as peer:
        answer = await peer.get("/echo", f"{NAME}:{runs.tls.port}", credentials(ticket))
    assert answer.status == 200
    assert len(runs.tls.requests) == 1


async def test_a_run_has_the_parameters_of_its_ticket(runs: Runs) -> None:
    ticket = await runs.start(params={"repo": "acme/site"})
    assert (await runs.fetch(ticket, path="/acme/site")).status == 404
    assert (await runs.fetch(ticket, path="/acme/other")).status == 403
    assert [request.path for request in runs.plain.requests] == ["/acme/site"]


async def test_a_profile_that_is_chosen_for_the_sandbox_does_not_widen_a_run(runs: Runs) -> None:
    place = Place("hosts.yaml", 1, 1)
    chosen = Grant("g-1", GrantTerms("profile", 60, profile="writer"), 2**40, "d", place)
    runs.stack.engine.set_overlay(SANDBOX, Overlay(Identity(SANDBOX), (chosen,)))
    assert (await runs.fetch()).status == 200
    reader = await runs.start("default")
    assert (await runs.fetch(reader)).header("egress-denied") == "profile.excluded"


async def test_what_is_denied_to_the_sandbox_is_denied_to_its_runs(runs: Runs) -> None:
    ticket, place = await runs.start(), Place("hosts.yaml", 1, 1)
    async with await dial(runs.stack.proxy) as peer:
        assert (await runs.get(peer, ticket)).status == 200
        denied = Grant("g-1", request_terms("deny", 60, NAME), 2**40, "d", place)
        runs.stack.engine.set_overlay(SANDBOX, Overlay(Identity(SANDBOX), (denied,)))
        assert (await runs.fetch(ticket)).status == 403
    runs.stack.engine.set_overlay(SANDBOX, None)
    assert (await runs.fetch(ticket)).status == 200
