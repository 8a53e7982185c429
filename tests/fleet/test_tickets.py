"""Tickets of a fleet: random, shown once, and refused as the proxy refuses them."""

from __future__ import annotations

import json

import pytest

from egress.api.ticket_schema import TicketSettings
from egress.fleet.errors import GrantBeyondError, GrantRefusedError
from egress.fleet.protocol import FleetInfo
from egress.fleet.tickets import ProxyTickets, make_ticket
from egress.run_ticket import RunTicket, is_ticket, ticket_digest
from egress.runtime.errors import GatewayError, GatewayRefusedError, SpecError
from tests.fleet.test_control_client import answering, http


class NotingKeeper:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.added: list[tuple[str, RunTicket, int, str]] = []

    def add_ticket(
        self, name: str, ticket: RunTicket, seconds: int, by: str = "", *, is_delegated: bool = False
    ) -> int:
        assert not is_delegated
        self.added.append((name, ticket, seconds, by))
        return ticket.expires - 1

    def end_ticket(self, name: str, ticket: str, made_by: str | None = None) -> None:
        raise AssertionError(name, ticket, made_by)


def test_a_ticket_is_registered_by_its_digest_and_shown_once() -> None:
    keeper = NotingKeeper()
    settings = TicketSettings(profile="wide", params={"repo": "acme/site"}, ttl=60)
    made = [make_ticket(keeper, "one", settings, "me") for _ in range(2)]
    assert all(is_ticket(each.ticket) for each in made)
    assert made[0].ticket != made[1].ticket
    [name, ticket, seconds, by], _ = keeper.added
    assert (name, seconds, by) == ("one", 60, "me")
    assert (ticket.digest, ticket.id) == (ticket_digest(made[0].ticket), made[0].id)
    # The end is the one that the keeper says.
    assert made[0].expires == ticket.expires - 1
    assert (ticket.profile, ticket.parameters) == ("wide", (("repo", "acme/site"),))
    assert made[0].ticket not in repr(keeper.added) + repr(made)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("400 Bad Request", SpecError),
        ("403 Forbidden", GrantBeyondError),
        ("409 Conflict", GrantRefusedError),
        ("503 Service Unavailable", GatewayRefusedError),
    ],
)
def test_a_refusal_of_the_proxy_has_its_type(status: str, error: type[Exception]) -> None:
    with answering(http(json.dumps({"error": "no", "hint": "ask less"}).encode(), status)) as folder:
        keeper = ProxyTickets(lambda: FleetInfo(kind="fake", runtime_dir=folder))
        with pytest.raises(error, match="no"):
            make_ticket(keeper, "one", TicketSettings(), "me")


def test_without_a_proxy_there_are_no_tickets() -> None:
    with pytest.raises(GatewayError, match="have no proxy"):
        ProxyTickets(lambda: FleetInfo(kind="fake")).end_ticket("one", "t-1")


def test_a_ticket_that_is_delegated_for_a_shorter_time_says_so() -> None:
    reply = http(json.dumps({"id": "t-1", "seconds": 60}).encode(), "201 Created")
    with answering(reply) as folder:
        keeper = ProxyTickets(lambda: FleetInfo(kind="fake", runtime_dir=folder))
        ticket = RunTicket("a" * 64, 10_000, "wide")
        assert keeper.add_ticket("one", ticket, 3600, "me", is_delegated=True) == 10_000 - 3600 + 60
