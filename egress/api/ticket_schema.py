"""The values of tickets: the rights of one run in a sandbox."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from egress.api.schema import ApiRequest, ApiView, RunParameters, Text
from egress.run_ticket import DEFAULT_TICKET_SECONDS, MAX_TICKET_SECONDS


class TicketSettings(ApiRequest, frozen=True):
    """The rights that one run in a sandbox is to have."""

    profile: Text | None = None
    """The profile of the run; that of the sandbox if left out."""
    params: RunParameters = field(default_factory=dict)
    """Values for parameters of the rules, which replace those of the sandbox."""
    ttl: Annotated[int, Meta(ge=1, le=MAX_TICKET_SECONDS)] = DEFAULT_TICKET_SECONDS
    """Seconds until it ends, if nobody revokes it before."""


class TicketView(ApiView, frozen=True):
    """A ticket. Nobody can ask for it again."""

    id: str
    """Its name in records and for its end, such as `t-5e884898da280471`."""
    ticket: str
    """The user of the proxy's address in the environment of the run: `http://TICKET@proxy:3128`."""
    expires: int
    """The second of its end, since 1970."""

    def __repr__(self) -> str:
        return f"TicketView({self.id!r})"
