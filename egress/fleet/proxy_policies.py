"""The rules of single sandboxes, asked of the proxy of this fleet.

The proxy judges every change by the delegations of its rules, and records it before it is in force. Nothing
here decides; the names of sandboxes are checked, since the proxy has one that belongs to no fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from egress.api.handler_schema import HandlerSettings, HandlersView
from egress.api.policy_schema import (
    ExplanationView,
    GrantSettings,
    GrantView,
    PolicyView,
    RequestSettings,
)
from egress.api.ticket_schema import TicketSettings, TicketView
from egress.fleet.control_client import ask_fleet_proxy, refusal, typed_answer
from egress.fleet.errors import GrantNotFoundError, GrantRefusedError
from egress.fleet.policies import given_fields
from egress.fleet.protocol import FleetInfo
from egress.fleet.tickets import ProxyTickets, make_ticket
from egress.runtime.protocol import TicketKeeper

OWN_CALLER: Final = "the program of the fleet"
"""The name that a grant has of a caller in this process."""


class ProxyPolicies:
    """`FleetPolicies` of a fleet in this process."""

    def __init__(
        self,
        about: Callable[[], FleetInfo],
        check_name: Callable[[str], object],
        tickets: TicketKeeper | None = None,
    ) -> None:
        """`check_name` raises `SandboxNotFoundError` for a name that no sandbox of the fleet has.

        `tickets` keeps tickets elsewhere than in the proxy of the fleet.
        """
        self._tickets = tickets or ProxyTickets(about)
        self._about = about
        self._check_name = check_name

    def show(self, name: str) -> PolicyView:
        return self._ask(PolicyView, "GET", f"/policy/{name}", name)

    def grant(self, name: str, settings: GrantSettings, by: str = OWN_CALLER) -> GrantView:
        """As the protocol says; `by` is recorded."""
        return self._ask(GrantView, "POST", f"/policy/{name}", name, {**given_fields(settings), "by": by})

    def undo(self, name: str, grant: str, by: str = OWN_CALLER, *, made_by: str | None = None) -> GrantView:
        """As the protocol says; with `made_by`, only a grant that this caller made."""
        found = next((each for each in self.show(name).grants if each.id == grant), None)
        if found is None:
            raise GrantNotFoundError(f"the sandbox {name} has no such grant", "list its grants")
        # The id is random and never used again, so nothing can change between this look and the call.
        if made_by not in (None, found.by):
            raise GrantRefusedError(
                f"the grant {found.id} was made by {found.by or 'another program'}",
                f"whoever made it takes it back, or `egress policy {name} --undo {found.id}` does",
            )
        return self._ask(GrantView, "DELETE", f"/policy/{name}", name, {"grant": grant, "by": by})

    def handlers(self, name: str) -> HandlersView:
        return self._ask(HandlersView, "GET", f"/handlers/{name}", name)

    def choose_handlers(self, name: str, settings: HandlerSettings, by: str = OWN_CALLER) -> HandlersView:
        """As the protocol says; `by` is recorded."""
        body = {**given_fields(settings), "by": by}
        return self._ask(HandlersView, "POST", f"/handlers/{name}", name, body)

    def add_ticket(
        self, name: str, settings: TicketSettings, by: str = OWN_CALLER, *, is_delegated: bool = False
    ) -> TicketView:
        """As the protocol says; `by` is recorded. With `is_delegated`, as far as the rules delegate it."""
        self._check_name(name)
        return make_ticket(self._tickets, name, settings, by, is_delegated=is_delegated)

    def end_ticket(self, name: str, ticket: str, made_by: str | None = None) -> None:
        """As the protocol says; with `made_by`, only a ticket that this caller asked for."""
        self._tickets.end_ticket(name, ticket, made_by)

    def explain(self, name: str, settings: RequestSettings) -> ExplanationView:
        return self._ask(ExplanationView, "POST", f"/explain/{name}", name, given_fields(settings))

    def _ask[T: msgspec.Struct](
        self, answer: type[T], method: str, target: str, name: str, body: Mapping[str, object] | None = None
    ) -> T:
        self._check_name(name)
        status, fields = ask_fleet_proxy(self._about(), method, target, body)
        if status not in (HTTPStatus.OK, HTTPStatus.CREATED):
            error = refusal(status, fields)
            is_gone = method == "DELETE" and status == HTTPStatus.NOT_FOUND
            raise GrantNotFoundError(error.message, error.hint) if is_gone else error
        return typed_answer(fields, answer)
