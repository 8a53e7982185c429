"""The rules of single sandboxes of a fleet behind the API."""

from __future__ import annotations

from egress.api.client import ApiClient
from egress.api.handler_schema import HandlerSettings, HandlersView
from egress.api.policy_schema import (
    ExplanationView,
    GrantSettings,
    GrantView,
    PolicyView,
    RequestSettings,
)
from egress.api.ticket_schema import TicketSettings, TicketView
from egress.fleet.remote_processes import Translate


class RemotePolicies:
    """`FleetPolicies` of another process."""

    def __init__(self, client: ApiClient, translated: Translate) -> None:
        self._client = client
        self._translated = translated

    def show(self, name: str) -> PolicyView:
        with self._translated():
            return self._client.call(PolicyView, "show_policy", {"name": name})

    def grant(self, name: str, settings: GrantSettings) -> GrantView:
        with self._translated():
            return self._client.call(GrantView, "grant", {"name": name}, body=settings)

    def undo(self, name: str, grant: str) -> GrantView:
        with self._translated():
            return self._client.call(GrantView, "undo_grant", {"name": name, "grant": grant})

    def handlers(self, name: str) -> HandlersView:
        with self._translated():
            return self._client.call(HandlersView, "show_handlers", {"name": name})

    def choose_handlers(self, name: str, settings: HandlerSettings) -> HandlersView:
        with self._translated():
            return self._client.call(HandlersView, "choose_handlers", {"name": name}, body=settings)

    def add_ticket(self, name: str, settings: TicketSettings) -> TicketView:
        with self._translated():
            return self._client.call(TicketView, "add_ticket", {"name": name}, body=settings)

    def end_ticket(self, name: str, ticket: str) -> None:
        with self._translated():
            self._client.tell("end_ticket", {"name": name, "ticket": ticket})

    def explain(self, name: str, settings: RequestSettings) -> ExplanationView:
        with self._translated():
            return self._client.call(ExplanationView, "explain_request", {"name": name}, body=settings)
