"""The tickets of runs in one pod: annotations of its claim or its pod, which the gateway watches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from egress.kubernetes.pod_identity import TICKET_ANNOTATION
from egress.run_ticket import CLOCK_DIFFERENCE, RunTicket, is_spent, write_statement
from egress.runtime.kubernetes.claims import Claims
from egress.runtime.kubernetes.pods import Pods


@dataclass(frozen=True, slots=True)
class TicketAnnotations:
    """The tickets on one object. Each call raises `EngineError` and `EngineUnavailableError`."""

    kind: Pods | Claims
    name: str
    """Of the object."""

    def add(self, ticket: RunTicket, pod_uid: str, now: float) -> None:
        """Add a ticket for this pod, and remove those that are spent."""
        statement = write_statement(ticket, pod_uid)
        self.kind.annotate(self.name, {**self._spent(now), TICKET_ANNOTATION + ticket.id: statement})

    def end(self, ticket: str) -> None:
        """Remove a ticket, by its id."""
        self.kind.annotate(self.name, {TICKET_ANNOTATION + ticket: None})

    def remove_spent(self, now: float) -> None:
        """Remove the tickets whose time is over: those of runs whose program was killed."""
        if spent := self._spent(now):
            self.kind.annotate(self.name, spent)

    def _spent(self, now: float) -> Mapping[str, None]:
        found = self.kind.find(self.name)
        notes = {} if found is None else found.metadata.annotations
        # A gateway whose clock is behind takes them for live a little longer.
        end = now - CLOCK_DIFFERENCE
        tickets = {name: text for name, text in notes.items() if name.startswith(TICKET_ANNOTATION)}
        return {name: None for name, text in tickets.items() if is_spent(text, end)}
