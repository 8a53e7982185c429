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

    def add_ticket(
        self, name: str, ticket: RunTicket, seconds: int, by: str = "", *, is_delegated: bool = False
    ) -> int:
        body = {
            "digest": ticket.digest,
            "ttl": seconds,
            "profile": ticket.profile,
            "params": dict(ticket.parameters),
            "by": by,
            "delegated": is_delegated,
        }
        status, fields = ask_fleet_proxy(self._about(), "POST", f"/tickets/{name}", body)
        if status != HTTPStatus.CREATED:
            raise refusal(status, fields)
        left = fields.get("seconds")
        # Shorter than asked for where the rules delegate it for no longer.
        return ticket.expires - seconds + (left if type(left) is int else seconds)

    def end_ticket(self, name: str, ticket: str, made_by: str | None = None) -> None:
        # A sandbox that is gone has taken its tickets with it.
        body = {"ticket": ticket, **({} if made_by is None else {"by": made_by})}
        ask_fleet_proxy(self._about(), "DELETE", f"/tickets/{name}", body)


def make_ticket(
    keeper: TicketKeeper, name: str, settings: TicketSettings, by: str, *, is_delegated: bool = False
) -> TicketView:
    """Make a ticket that holds when this returns.

    Raises `SpecError`, `GrantRefusedError`, and `GrantBeyondError` for a profile that is not delegated.
    """
    ticket = ticket_text(secrets.token_bytes(SEED_BYTES))
    expires = int(time.time()) + settings.ttl  # noqa: TID251 - every replica of a gateway reads it
    made = RunTicket(ticket_digest(ticket), expires, settings.profile or "", parameters_of(settings.params))
    end = keeper.add_ticket(name, made, settings.ttl, by, is_delegated=is_delegated)
    return TicketView(id=made.id, ticket=ticket, expires=end)
