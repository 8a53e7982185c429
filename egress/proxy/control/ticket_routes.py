"""Tickets over the control socket: the rights of one run, registered by the digest of its ticket.

A ticket is recorded before it holds. It ends when its time is over, when it is revoked, and with its sandbox
or the proxy, and the connections that came with it are cut.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

import msgspec
import structlog

from egress.errors import EgressError, UsageError
from egress.proxy.control.sandbox_views import moment
from egress.proxy.control.server import Body, ControlReply, Routes
from egress.proxy.ingress.local_tickets import LocalTickets
from egress.proxy.lanes.engine import ProxyEngine
from egress.rules.compile.grants import NotDelegatedError
from egress.run_ticket import MAX_TICKET_SECONDS, Digest, RunTicket
from egress.types import parameters_of

_NO_SANDBOX: Final = ControlReply(404, {"error": "no sandbox has this name", "hint": "look at GET /status"})

_log = structlog.get_logger(__name__)


class _Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A ticket that a sandbox is to have."""

    digest: Digest
    ttl: Annotated[int, msgspec.Meta(ge=1, le=MAX_TICKET_SECONDS)]
    profile: Annotated[str, msgspec.Meta(max_length=253)] = ""
    params: Annotated[dict[str, str], msgspec.Meta(max_length=32)] = msgspec.field(default_factory=dict)
    by: Annotated[str, msgspec.Meta(max_length=256)] = ""
    delegated: bool = False
    """Whether the rules have to delegate the profile."""


class TicketRoutes:
    """What the control socket says about tickets."""

    def __init__(self, engine: ProxyEngine, tickets: LocalTickets) -> None:
        self._engine = engine
        self._tickets = tickets

    def routes(self) -> Routes:
        return {("POST", "/tickets/*"): self._add, ("DELETE", "/tickets/*"): self._revoke}

    async def _add(self, body: Body) -> ControlReply:
        served = self._engine.sandboxes.get(str(body.get("name", "")))
        if served is None:
            return _NO_SANDBOX
        try:
            asked = msgspec.convert({key: value for key, value in body.items() if key != "name"}, _Asked)
        except msgspec.ValidationError as error:
            return ControlReply(400, {"error": f"this is no ticket: {error}", "hint": "send digest and ttl"})
        identity, now = served.identity, self._engine.clock.now()
        ticket = RunTicket(asked.digest, now + asked.ttl, asked.profile, parameters_of(asked.params))
        seconds = asked.ttl
        try:
            if asked.delegated:
                seconds = self._tickets.delegated(identity, ticket, asked.ttl)
                ticket = replace(ticket, expires=now + seconds)
            self._tickets.check(identity, ticket)
        except NotDelegatedError as error:
            return ControlReply(403, {"error": error.message, "hint": error.hint})
        except UsageError as error:
            return ControlReply(409, {"error": error.message, "hint": error.hint})
        if not self._engine.audit.may_work(identity.sandbox):
            return ControlReply(
                503, {"error": "the audit log takes no more records", "hint": "see `egress status`"}
            )
        until = moment(ticket.expires)
        try:
            # First, so that no ticket holds that is not on record.
            self._record(
                "ticket.added",
                identity.sandbox,
                ticket.id,
                profile=asked.profile or identity.profile,
                until=until,
                by=self._masked(asked.by),
            )
        except EgressError as error:
            return ControlReply(503, {"error": error.message, "hint": error.hint})
        self._tickets.add(identity.sandbox, ticket, seconds, asked.by, is_delegated=asked.delegated)
        return ControlReply(201, {"id": ticket.id, "expires": until, "seconds": seconds})

    async def _revoke(self, body: Body) -> ControlReply:
        sandbox, ticket, by = str(body.get("name", "")), body.get("ticket"), body.get("by")
        if sandbox not in self._engine.sandboxes:
            return _NO_SANDBOX
        if not isinstance(ticket, str) or not isinstance(by, str | None):
            return ControlReply(400, {"error": "this names no ticket", "hint": 'send {"ticket": "t-..."}'})
        if not self._tickets.has(sandbox, ticket, by):
            # It may have ended a moment ago, which is what the caller wants.
            return ControlReply(200, {"connections": 0})
        return ControlReply(200, {"connections": self._end(sandbox, ticket, "revoked")})

    def expire(self) -> None:
        """End the tickets that hold no more; called about once a second."""
        for sandbox, ticket, reason in self._tickets.over():
            self._end(sandbox, ticket, reason)

    def _end(self, sandbox: str, ticket: str, reason: str) -> int:
        cut = self._tickets.end(ticket)
        try:
            self._record("ticket.ended", sandbox, ticket, reason=reason, connections=cut)
        except EgressError as error:
            # Nothing holds up the end of a right.
            _log.error("ticket.not_recorded", sandbox=sandbox, ticket=ticket, error=error.message)
        return cut

    def _record(self, kind: str, sandbox: str, ticket: str, **facts: str | int | None) -> None:
        digest = self._engine.policy.digest
        self._engine.audit.event(kind, sandbox=sandbox, ticket=ticket, **facts, policy=digest)
        self._engine.audit.flush()

    def _masked(self, text: str) -> str:
        return self._engine.secrets.all_needles().mask(text.encode("utf-8", "replace")).data.decode()
