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
from egress.rules.compile.grants import NotDelegatedError, delegated_seconds
from egress.rules.decide.parameters import parameter_fault
from egress.rules.language.report import quoted
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
    by: str = ""
    """Who asked for it."""
    is_delegated: bool = False
    """Whether it holds only while the rules delegate its profile."""


class LocalTickets:
    """The `RunTickets` of a proxy on one machine."""

    def __init__(self, engine: ProxyEngine) -> None:
        self._engine = engine
        self._kept: dict[str, _Kept] = {}
        """By the id of the ticket."""

    # Questions of the ingress

    async def redeem(self, identity: Identity, peer: str, digest: str) -> Identity | str:  # noqa: ARG002 - a protocol
        kept = self._kept.get(ticket_id(digest))
        if kept is None or kept.ticket.digest != digest or self._end_reason(kept):
            return UNKNOWN_TICKET
        return run_identity(identity, kept.ticket) if kept.sandbox == identity.sandbox else FOREIGN_TICKET

    def is_live(self, identity: Identity) -> bool:
        kept = self._kept.get(identity.ticket)
        return kept is not None and kept.sandbox == identity.sandbox and not self._end_reason(kept)

    def _end_reason(self, kept: _Kept) -> str:
        """Why a ticket holds no more; empty while it does."""
        if self._engine.clock.monotonic() >= kept.end:
            return "expired"
        if not kept.is_delegated:
            return ""
        # Judged by the sandbox, as it was: the run has another profile.
        served = self._engine.sandboxes.get(kept.sandbox)
        try:
            if served is not None:
                delegated_seconds(self._engine.policy, served.identity, kept.ticket.profile, 1)
                return ""
        except NotDelegatedError:
            pass
        return "undelegated"

    # Changes

    def check(self, identity: Identity, ticket: RunTicket) -> None:
        """Refuse a ticket that cannot be. Raises `UsageError`."""
        held = [each for each in self._kept.values() if not self._end_reason(each)]
        if sum(each.sandbox == identity.sandbox for each in held) >= MAX_TICKETS:
            raise UsageError(f"the sandbox has {MAX_TICKETS} tickets already", "revoke one first")
        if len(held) >= MAX_ALL_TICKETS:
            raise UsageError(f"there are {MAX_ALL_TICKETS} tickets already", "revoke one first")
        if ticket.id in self._kept:
            raise UsageError("there is a ticket with this digest already", "take another one")
        policy = self._engine.policy
        if ticket.profile and ticket.profile not in (policy.profiles or ()):
            there = ", ".join(sorted(policy.profiles or ())) or "none"
            raise UsageError(
                f"the rules have no profile {quoted(ticket.profile)}", f"profiles of the rules: {there}"
            )
        if fault := parameter_fault(policy, run_identity(identity, ticket).parameters):
            known = ", ".join(sorted(policy.parameters)) or "none"
            raise UsageError(fault, f"parameters of the rules: {known}")

    def delegated(self, identity: Identity, ticket: RunTicket, seconds: int) -> int:
        """Return for how many seconds the rules delegate a ticket. Raises `NotDelegatedError`."""
        if not ticket.profile or ticket.parameters:
            raise NotDelegatedError(
                "the rules delegate profiles to runs, and no parameters", "name a profile that is delegated"
            )
        return delegated_seconds(self._engine.policy, identity, ticket.profile, seconds)

    def add(
        self, sandbox: str, ticket: RunTicket, seconds: int, by: str = "", *, is_delegated: bool = False
    ) -> None:
        """Keep a ticket that was checked; with `is_delegated`, while the rules delegate it."""
        end = self._engine.clock.monotonic() + seconds
        self._kept[ticket.id] = _Kept(sandbox, ticket, end, by, is_delegated)

    def has(self, sandbox: str, ticket: str, by: str | None = None) -> bool:
        """Tell whether a sandbox has a ticket of this id; with `by`, one that this caller asked for."""
        kept = self._kept.get(ticket)
        return kept is not None and kept.sandbox == sandbox and by in (None, kept.by)

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

    def over(self) -> Iterator[tuple[str, str, str]]:
        """Yield the tickets that hold no more, each as its sandbox, its id and the reason."""
        for ticket, kept in list(self._kept.items()):
            if reason := self._end_reason(kept):
                yield kept.sandbox, ticket, reason


def run_identity(identity: Identity, ticket: RunTicket) -> Identity:
    """Return the identity of a run: its sandbox, with the rights of its ticket."""
    values = {**dict(identity.parameters), **dict(ticket.parameters)}
    return replace(
        identity,
        profile=ticket.profile or identity.profile,
        parameters=parameters_of(values),
        ticket=ticket.id,
    )
