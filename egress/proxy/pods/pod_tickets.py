"""The tickets of runs in the pods of a cluster: statements in annotations of a claim, or of a plain pod.

Whoever may write a claim chooses its profile, and so may give one of its runs another, under the same
ceiling. All replicas of a gateway watch the claims, so a ticket holds at each of them, and ends at
each of them when its annotation goes. A statement names the pod that it is about: the next pod of the claim
has no use of it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from egress.kubernetes.identity_map import IdentityMap
from egress.kubernetes.pod_identity import (
    PARAMETER_PREFIX,
    PROFILE_ANNOTATION,
    TICKET_ANNOTATION,
    PodIdentity,
)
from egress.proxy.ingress.ticket_check import ENDED_TICKET, FOREIGN_TICKET, UNKNOWN_TICKET
from egress.proxy.lanes.connection import LiveConnection
from egress.proxy.lanes.engine import ProxyEngine
from egress.proxy.pods.pod_profile import ProfileChoice, choose_profile
from egress.run_ticket import (
    CLOCK_DIFFERENCE,
    MAX_TICKET_SECONDS,
    MAX_TICKETS,
    RunTicket,
    read_statement,
    ticket_id,
)
from egress.types import Identity

WATCH_TIMEOUT: Final = 2.0
"""Seconds for the watch to tell of a ticket: a run may be quicker."""
_MIN_PAUSE: Final = 0.02
_MAX_PAUSE: Final = 0.2
"""The first look is soon, since a watch is quick. Each one reads all tickets of a claim."""
MAX_WAITING_TICKETS: Final = 64
"""Connections of one sandbox that wait for the watch; further ones have their answer at once."""


class PodTickets:
    """The `RunTickets` of a cluster."""

    def __init__(
        self, engine: ProxyEngine, identities: IdentityMap, watch_timeout: float = WATCH_TIMEOUT
    ) -> None:
        self._engine = engine
        self._map = identities
        self._watch_timeout = watch_timeout
        self._waiting: Counter[str] = Counter()
        """How many connections wait for the watch, by sandbox."""
        self.on_refused: Callable[[PodIdentity, ProfileChoice], None] = lambda _found, _choice: None
        """Told of tickets that ask for what their template or the rules refuse."""

    async def redeem(self, identity: Identity, peer: str, digest: str) -> Identity | str:
        found, sandbox = self._redeem(identity, peer, digest), identity.sandbox
        if found != UNKNOWN_TICKET or self._waiting[sandbox] >= MAX_WAITING_TICKETS:
            return found
        end, pause = self._engine.clock.monotonic() + self._watch_timeout, _MIN_PAUSE
        self._waiting[sandbox] += 1
        try:
            while found == UNKNOWN_TICKET and self._engine.clock.monotonic() < end:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)
                found = self._redeem(identity, peer, digest)
        finally:
            self._waiting -= Counter((sandbox,))
        return found

    def is_live(self, identity: Identity) -> bool:
        found = self._map.of_pod(identity.workload.pod_uid) if identity.workload else None
        held = self._live(found).get(identity.ticket) if found else None
        if found is None or held is None:
            return False
        # A statement may have been written anew, with other rights for the same ticket.
        choice = choose_profile(_with_wishes(found, held), self._engine.policy)
        rights = (choice.code, choice.profile, choice.parameters)
        return rights == ("", identity.profile, identity.parameters)

    def cut_pod(self, uid: str) -> None:
        """Cut the runs of a pod whose tickets are gone; told by the map."""
        self._cut(self._engine.live.of_pod(uid))

    def cut_ended(self) -> None:
        """Cut the runs whose time is over; called about once a second."""
        for ticket in self._engine.live.tickets:
            self._cut(self._engine.live.of_ticket(ticket))

    def _cut(self, carried: tuple[LiveConnection, ...]) -> None:
        # Asked once for all connections of a run: the answer takes a reading of all tickets of its claim.
        live: dict[tuple[Identity, str], bool] = {}
        for each in carried:
            identity = each.admitted.identity
            if not identity.ticket:
                continue
            run = identity, identity.workload.pod_uid if identity.workload else ""
            if run not in live:
                live[run] = self.is_live(identity)
            if not live[run]:
                each.close(ENDED_TICKET)

    def _redeem(self, identity: Identity, peer: str, digest: str) -> Identity | str:
        found, ticket = self._map.find(peer), ticket_id(digest)
        if not isinstance(found, PodIdentity):
            return found
        held = self._live(found).get(ticket)
        if held is None or held.digest != digest:
            is_foreign = self._map.has_ticket(TICKET_ANNOTATION + ticket) and not self._is_over(found, ticket)
            return FOREIGN_TICKET if is_foreign else UNKNOWN_TICKET
        choice = choose_profile(wishes := _with_wishes(found, held), self._engine.policy)
        if choice.code:
            self.on_refused(wishes, choice)
            return choice.code
        return replace(identity, profile=choice.profile, parameters=choice.parameters, ticket=ticket)

    def _is_over(self, found: PodIdentity, ticket: str) -> bool:
        """Tell whether a ticket that does not hold is a ticket of this pod all the same."""
        statement = read_statement(dict(found.tickets).get(TICKET_ANNOTATION + ticket, ""))
        return statement is not None and statement.pod == found.pod_uid

    def _live(self, found: PodIdentity) -> Mapping[str, RunTicket]:
        """Return the tickets that hold for a pod, by their ids."""
        now = self._engine.clock.now()
        live: list[RunTicket] = []
        for key, text in found.tickets:
            statement = read_statement(text)
            # One that is to hold for longer than any ticket may is no ticket.
            if (
                statement is not None
                and statement.pod == found.pod_uid
                and now < statement.expires <= now + MAX_TICKET_SECONDS + CLOCK_DIFFERENCE
                and key == TICKET_ANNOTATION + ticket_id(statement.digest)
            ):
                live.append(statement.ticket)
        # The same ones at each replica, whatever the order in which they were written.
        kept = sorted(live, key=lambda each: (each.expires, each.digest))[:MAX_TICKETS]
        return {each.id: each for each in kept}


def _with_wishes(found: PodIdentity, ticket: RunTicket) -> PodIdentity:
    """Return an identity that wishes for what a ticket says, and else for what it wishes for itself."""
    wishes = dict(found.annotations)
    if ticket.profile:
        wishes[PROFILE_ANNOTATION] = ticket.profile
    wishes |= {f"{PARAMETER_PREFIX}{name}": value for name, value in ticket.parameters}
    return replace(found, annotations=tuple(sorted(wishes.items())))
