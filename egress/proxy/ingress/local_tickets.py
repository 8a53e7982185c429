"""The tickets of runs in sandboxes of this machine: kept in memory, and gone with the proxy.

In a cluster they stand in annotations instead, which every replica of the gateway reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from egress.errors import UsageError
from egress.proxy.ingress.ticket_check import ENDED_TICKET, FOREIGN_TICKET, UNKNOWN_TICKET
from egress.proxy.lanes.engine import ProxyEngine
from egress.rules.decide.parameters import parameter_fault
from egress.run_ticket import MAX_TICKETS, RunTicket, ticket_id
from egress.types import Identity, parameters_of

MAX_ALL_TICKETS: Final = 4096
"""Live tickets of all sandboxes."""


@dataclass(frozen=True, slots=True)
class _Kept:
    sandbox: str
    ticket: RunTicket
    end: float
    """When it ends at the latest, by a clock that is never put back."""


class LocalTickets:
    """The `RunTickets` of a proxy on one machine."""

    def __init__(self, engine: ProxyEngine) -> None:
        self._engine = engine
        self._kept: dict[str, _Kept] = {}
        """By the id of the ticket."""

    # Questions of the ingress

    async def redeem(self, identity: Identity, peer: str, digest: str) -> Identity | str:  # noqa: ARG002 - a protocol
        kept = self._kept.get(ticket_id(digest))
        if kept is None or kept.ticket.digest != digest or self._is_over(kept):
            return UNKNOWN_TICKET
        return run_identity(identity, kept.ticket) if kept.sandbox == identity.sandbox else FOREIGN_TICKET

    def is_live(self, identity: Identity) -> bool:
        kept = self._kept.get(identity.ticket)
        return kept is not None and kept.sandbox == identity.sandbox and not self._is_over(kept)

    def _is_over(self, kept: _Kept) -> bool:
        return self._engine.clock.monotonic() >= kept.end

    # Changes

    def check(self, identity: Identity, ticket: RunTicket) -> None:
        """Refuse a ticket that cannot be. Raises `UsageError`."""
        held = [each for each in self._kept.values() if not self._is_over(each)]
        if sum(each.sandbox == identity.sandbox for each in held) >= MAX_TICKETS:
            raise UsageError(f"the sandbox has {MAX_TICKETS} tickets already", "revoke one first")
        if len(held) >= MAX_ALL_TICKETS:
            raise UsageError(f"there are {MAX_ALL_TICKETS} tickets already", "revoke one first")
        if ticket.id in self._kept:
            raise UsageError("there is a ticket with this digest already", "take another one")
        policy = self._engine.policy
        if ticket.profile and ticket.profile not in (policy.profiles or ()):
            there = ", ".join(sorted(policy.profiles or ())) or "none"
            raise UsageError("the rules have no such profile", f"profiles of the rules: {there}")
        if fault := parameter_fault(policy, run_identity(identity, ticket).parameters):
            known = ", ".join(sorted(policy.parameters)) or "none"
            raise UsageError(fault, f"parameters of the rules: {known}")

    def add(self, sandbox: str, ticket: RunTicket, seconds: int) -> None:
        """Keep a ticket that was checked."""
        self._kept[ticket.id] = _Kept(sandbox, ticket, self._engine.clock.monotonic() + seconds)

    def has(self, sandbox: str, ticket: str) -> bool:
        """Tell whether a sandbox has a ticket of this id."""
        kept = self._kept.get(ticket)
        return kept is not None and kept.sandbox == sandbox

    def end(self, ticket: str) -> int:
        """Forget a ticket, and cut what came with it; return how many connections that were."""
        self._kept.pop(ticket, None)
        carried = self._engine.live.of_ticket(ticket)
        for each in carried:
            each.close(ENDED_TICKET)
        return len(carried)

    def forget(self, sandbox: str) -> None:
        """End the tickets of a sandbox that is gone: a later one of its name must not have them."""
        for ticket in [each for each, kept in self._kept.items() if kept.sandbox == sandbox]:
            self.end(ticket)

    def over(self) -> Iterator[tuple[str, str]]:
        """Yield the tickets whose time is over, each as its sandbox and its id."""
        for ticket, kept in list(self._kept.items()):
            if self._is_over(kept):
                yield kept.sandbox, ticket


def run_identity(identity: Identity, ticket: RunTicket) -> Identity:
    """Return the identity of a run: its sandbox, with the rights of its ticket."""
    values = {**dict(identity.parameters), **dict(ticket.parameters)}
    return replace(
        identity,
        profile=ticket.profile or identity.profile,
        parameters=parameters_of(values),
        ticket=ticket.id,
    )
