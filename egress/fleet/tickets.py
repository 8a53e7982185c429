"""Tickets for runs in the sandboxes of a fleet: made here, shown once, known elsewhere by their digest."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

from egress.api.ticket_schema import TicketSettings, TicketView
from egress.fleet.control_client import ask_fleet_proxy, refusal
from egress.run_ticket import SEED_BYTES, RunTicket, ticket_digest, ticket_text
from egress.types import parameters_of

if TYPE_CHECKING:
    from egress.fleet.protocol import FleetInfo
    from egress.runtime.protocol import TicketKeeper


class ProxyTickets:
    """The `TicketKeeper` of a fleet whose proxy runs on this machine."""

    def __init__(self, about: Callable[[], FleetInfo]) -> None:
        self._about = about

    def add_ticket(self, name: str, ticket: RunTicket, seconds: int, by: str = "") -> None:
        body = {
            "digest": ticket.digest,
            "ttl": seconds,
            "profile": ticket.profile,
            "params": dict(ticket.parameters),
            "by": by,
        }
        status, fields = ask_fleet_proxy(self._about(), "POST", f"/tickets/{name}", body)
        if status != HTTPStatus.CREATED:
            raise refusal(status, fields)

    def end_ticket(self, name: str, ticket: str) -> None:
        # A sandbox that is gone has taken its tickets with it.
        ask_fleet_proxy(self._about(), "DELETE", f"/tickets/{name}", {"ticket": ticket})


def make_ticket(keeper: TicketKeeper, name: str, settings: TicketSettings, by: str) -> TicketView:
    """Make a ticket that holds when this returns. Raises `SpecError` and `GrantRefusedError`."""
    ticket = ticket_text(secrets.token_bytes(SEED_BYTES))
    expires = int(time.time()) + settings.ttl  # noqa: TID251 - every replica of a gateway reads it
    made = RunTicket(ticket_digest(ticket), expires, settings.profile or "", parameters_of(settings.params))
    keeper.add_ticket(name, made, settings.ttl, by)
    return TicketView(id=made.id, ticket=ticket, expires=expires)
