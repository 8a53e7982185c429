"""The ticket of a run: a client of the proxy shows it, and its connection gets the rights of that run.

The network still says which sandbox it is; a ticket only chooses among the rights that somebody has given to
runs in that sandbox. One that does not hold is refused, and never taken for none: its run would go on with
other rights than it was started with.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Final, Protocol

from egress.proxy.clock import Clock
from egress.proxy.ingress.peer_authentication import presented_tickets
from egress.proxy.ingress.pending_connection import IngressRefusal, PendingConnection, RequestedDestination
from egress.run_ticket import is_ticket, ticket_digest
from egress.types import Identity
from egress.wrong_tokens import WrongTokenBucket

UNKNOWN_TICKET: Final = "ticket.unknown"
FOREIGN_TICKET: Final = "ticket.foreign"
ENDED_TICKET: Final = "ticket.ended"
MAX_BUCKETS: Final = 4096
"""Sandboxes whose wrong tickets are counted; a sandbox that stopped long ago makes room."""


class RunTickets(Protocol):
    """The tickets that hold."""

    async def redeem(self, identity: Identity, peer: str, digest: str) -> Identity | str:
        """Return the identity of a run in this sandbox, or the code of the reason why there is none."""
        ...

    def is_live(self, identity: Identity) -> bool:
        """Tell whether the ticket of a run still holds."""
        ...


class TicketCheck:
    """Takes the tickets of clients, and counts wrong ones by the sandbox that sends them."""

    def __init__(self, tickets: RunTickets, clock: Clock) -> None:
        self._tickets = tickets
        self._clock = clock
        self._wrong: OrderedDict[str, WrongTokenBucket] = OrderedDict()

    async def refusal(self, pending: PendingConnection, asked: RequestedDestination) -> IngressRefusal | None:
        """Give a connection the rights of the ticket that it shows; return why it cannot have them."""
        if pending.listener.kind != "proxy" or pending.head is None:
            return None
        shown = presented_tickets(pending.head)
        if not shown:
            return None
        code = UNKNOWN_TICKET
        # Two tickets would be two runs.
        if len(shown) == 1 and is_ticket(shown[0]):
            found = await self._tickets.redeem(pending.identity, pending.peer, ticket_digest(shown[0]))
            if isinstance(found, Identity):
                pending.identity = found
                return None
            code = found
        if code in (UNKNOWN_TICKET, FOREIGN_TICKET) and not self._bucket(pending.identity.sandbox).take():
            return replace(asked.refused("limit.requests"), retry_after=1)
        return asked.refused(code)

    def ended(self, identity: Identity) -> IngressRefusal | None:
        """Return why a run may not go on; clients take their time until a lane carries them."""
        if not identity.ticket or self._tickets.is_live(identity):
            return None
        return IngressRefusal(ENDED_TICKET)

    def _bucket(self, sandbox: str) -> WrongTokenBucket:
        found = self._wrong.pop(sandbox, None) or WrongTokenBucket(self._clock.monotonic)
        self._wrong[sandbox] = found
        if len(self._wrong) > MAX_BUCKETS:
            self._wrong.popitem(last=False)
        return found
