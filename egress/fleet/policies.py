"""The rules of single sandboxes: their grants, and what would happen to a request of theirs.

The values are those of the API, so that a fleet of this process and one behind the API answer alike.
"""

from __future__ import annotations

import re
from typing import Final, Literal, Protocol

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
from egress.errors import UsageError

_CHANGE_PATTERN: Final = re.compile(
    r"(?:(?P<methods>[^\s/]+) +)?https://(?P<host>[^\s/:@?#]+)(?::(?P<port>[0-9]{1,5}))?(?P<path>/\S*)?"
)


class FleetPolicies(Protocol):
    """The rules of the sandboxes of a fleet. Each method raises `SandboxNotFoundError`."""

    def show(self, name: str) -> PolicyView:
        """Return what is granted to a sandbox, and what can be."""

    def grant(self, name: str, settings: GrantSettings) -> GrantView:
        """Make a grant. Raises `SpecError`, `GrantBeyondError` and `GrantRefusedError`."""

    def undo(self, name: str, grant: str) -> GrantView:
        """Take a grant back. Raises `GrantNotFoundError`."""

    def handlers(self, name: str) -> HandlersView:
        """Return the handlers that were chosen for a sandbox, and those that can be."""

    def choose_handlers(self, name: str, settings: HandlerSettings) -> HandlersView:
        """Choose the handlers of a sandbox. Raises `GrantRefusedError` for one that is not loaded."""

    def add_ticket(self, name: str, settings: TicketSettings) -> TicketView:
        """Make a ticket for one run. Raises `SpecError` and `GrantRefusedError`."""

    def end_ticket(self, name: str, ticket: str) -> None:
        """Revoke a ticket, by its id. Does nothing if it has ended."""

    def explain(self, name: str, settings: RequestSettings) -> ExplanationView:
        """Return what would happen to a request of the sandbox. Raises `SpecError`."""


def read_change(kind: Literal["allow", "deny"], text: str, ttl: int) -> GrantSettings:
    """Read a change as people write it, such as `GET https://files.example.com/public/**`.

    Raises `UsageError`.
    """
    match = _CHANGE_PATTERN.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{kind} needs an https URL, with methods in front",
            "for example 'GET,HEAD https://files.example.com/public/**'",
        )
    return GrantSettings(
        kind=kind,
        ttl=ttl,
        host=match["host"],
        port=int(match["port"] or 443),
        methods=tuple(match["methods"].split(",")) if match["methods"] else None,
        paths=(match["path"],) if match["path"] else None,
    )


def given_fields(settings: msgspec.Struct) -> dict[str, object]:
    """Return the fields that are set, as plain data."""
    made = msgspec.json.decode(msgspec.json.encode(settings), type=dict[str, object])
    return {key: value for key, value in made.items() if value is not None}
