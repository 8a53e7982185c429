"""Grants over the control socket: changes to the rules of one sandbox, within what the rule file delegates.

Grants are held in memory, as a part of the policy in force. They end when their time is over, when they are
taken back, when new rules do not delegate them, and with their sandbox or the proxy. Each of these is
recorded. A grant is recorded before it is in force: what cannot be recorded is not granted.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Final

import structlog

from egress.audit.reported_facts import AuditStoppedError
from egress.errors import CODES, EgressError, UsageError
from egress.proxy.control.handler_choices import HandlerChoices
from egress.proxy.control.sandbox_views import moment
from egress.proxy.control.server import Body, ControlReply, Routes
from egress.proxy.lanes.engine import ProxyEngine
from egress.rules.compile.grants import NotDelegatedError, covering, grant_fields, read_terms, terms_text
from egress.rules.compile.policy_writer import delegation_fields
from egress.rules.decide.decision import decide_host, profile_name
from egress.rules.decide.overlay import Grant, GrantTerms, Overlay
from egress.types import Identity

MAX_GRANTS: Final = 64
"""Grants of one sandbox at a time."""
_MAX_SHOWN: Final = 20
"""Names that a hint lists."""
_ID_BYTES: Final = 4

_log = structlog.get_logger(__name__)


class SandboxPolicies:
    """The grants of every sandbox."""

    def __init__(self, engine: ProxyEngine) -> None:
        self._engine = engine
        self._recorded: dict[str, tuple[Grant, ...]] = {}
        """The grants that were in force when this was last looked at, by sandbox."""
        self._ends: dict[str, float] = {}
        """When each grant ends at the latest, by a clock that is never put back."""

    def routes(self) -> Routes:
        return {
            ("GET", "/policy/*"): self._show,
            ("POST", "/policy/*"): self._grant,
            ("DELETE", "/policy/*"): self._revoke,
            **HandlerChoices(self._engine).routes(),
        }

    def count(self, sandbox: str) -> int:
        """Return how many grants of a sandbox are in force."""
        overlay = self._engine.policy.overlays.get(sandbox)
        return 0 if overlay is None else len(overlay.at(self._engine.clock.now()).grants)

    # Asking

    async def _show(self, body: Body) -> ControlReply:
        identity = self._identity(body)
        if identity is None:
            return self._unknown()
        policy, now = self._engine.policy, self._engine.clock.now()
        overlay = self._overlay(identity).at(now)
        return ControlReply(
            200,
            {
                "sandbox": identity.sandbox,
                "profile": identity.profile,
                "params": dict(identity.parameters),
                "profile_in_force": None if policy.profiles is None else profile_name(policy, identity, now),
                "policy": policy.digest,
                "grants": [grant_fields(grant) for grant in overlay.grants],
                "delegations": [
                    delegation_fields(each) for each in policy.delegations if each.is_for(identity)
                ],
            },
        )

    async def _grant(self, body: Body) -> ControlReply:
        identity = self._identity(body)
        if identity is None:
            return self._unknown()
        try:
            terms = read_terms({key: value for key, value in body.items() if key != "name"})
        except UsageError as error:
            return _refusal(400, error)
        try:
            delegation = covering(self._engine.policy, identity, terms)
            now = self._engine.clock.now()
            grant = Grant(self._new_id(), terms, now + terms.ttl, delegation.id, delegation.place)
            overlay = self._with(identity, grant, now)
            # Last, so that the log has no grant that was never in force.
            self._record_grant(identity, grant)
        except NotDelegatedError as error:
            return self._refused(403, identity, terms, error)
        except UsageError as error:
            return self._refused(409, identity, terms, error)
        except EgressError as error:
            return _refusal(503, error)
        self._ends[grant.id] = self._engine.clock.monotonic() + terms.ttl
        self._put(overlay)
        return ControlReply(201, grant_fields(grant))

    async def _revoke(self, body: Body) -> ControlReply:
        identity, by = self._identity(body), body.get("by", "")
        if identity is None:
            return self._unknown()
        if not isinstance(by, str) or not body.keys() <= {"name", "grant", "by"}:
            return ControlReply(400, {"error": "this names no grant", "hint": 'send {"grant": "g-..."}'})
        overlay = self._overlay(identity)
        gone = next((grant for grant in overlay.grants if grant.id == body.get("grant")), None)
        if gone is None:
            there = ", ".join(grant.id for grant in overlay.grants) or "none"
            hint = f"grants of this sandbox: {there}"
            return ControlReply(404, {"error": "the sandbox has no such grant", "hint": hint})
        self._put(
            replace(overlay, grants=tuple(each for each in overlay.grants if each is not gone), routes={})
        )
        self._note("grant.revoked", identity.sandbox, gone, by=self._masked(by))
        return ControlReply(200, grant_fields(gone))

    # Time and other rules

    def expire(self) -> None:
        """End the grants whose time is over; called about once a second."""
        now, elapsed = self._engine.clock.now(), self._engine.clock.monotonic()
        # Decisions go by the time of day. Where that is put back, a grant would hold for longer than it may.
        late = {grant for grant, end in self._ends.items() if end <= elapsed}
        for name, overlay in list(self._engine.policy.overlays.items()):
            live = overlay.at(now)
            if any(grant.id in late for grant in live.grants):
                live = replace(
                    live, grants=tuple(each for each in live.grants if each.id not in late), routes={}
                )
            if live is overlay:
                continue
            self._put(live)
            for grant in overlay.grants:
                if grant not in live.grants:
                    self._note("grant.expired", name, grant)
        there = {grant.id for each in self._engine.policy.overlays.values() for grant in each.grants}
        self._ends = {grant: end for grant, end in self._ends.items() if grant in there}

    def note_dropped(self, reason: str) -> None:
        """Record the grants that are gone from the policy since it was last looked at."""
        overlays = self._engine.policy.overlays
        before, self._recorded = self._recorded, {name: each.grants for name, each in overlays.items()}
        for name, grants in before.items():
            kept = {grant.id for grant in self._recorded.get(name, ())}
            for grant in grants:
                if grant.id not in kept:
                    self._note("grant.dropped", name, grant, reason=reason)

    # Inside

    def _identity(self, body: Body) -> Identity | None:
        served = self._engine.sandboxes.get(str(body.get("name", "")))
        return None if served is None else served.identity

    def _unknown(self) -> ControlReply:
        there = ", ".join(sorted(self._engine.sandboxes)[:_MAX_SHOWN]) or "none"
        return ControlReply(404, {"error": "no sandbox has this name", "hint": f"sandboxes: {there}"})

    def _overlay(self, identity: Identity) -> Overlay:
        found = self._engine.policy.overlays.get(identity.sandbox)
        return found or Overlay(identity, ())

    def _with(self, identity: Identity, grant: Grant, now: int) -> Overlay:
        """Return the overlay with one more grant. Raises `UsageError` where that can have no effect."""
        overlay = self._overlay(identity).at(now)
        if len(overlay.grants) >= MAX_GRANTS:
            raise UsageError(f"the sandbox has {MAX_GRANTS} grants already", "take one back first")
        if grant.terms.kind == "profile" and overlay.profile:
            raise UsageError(
                f"the profile {overlay.profile} is chosen for the sandbox already",
                "take that grant back first",
            )
        made = Overlay(identity, (*overlay.grants, grant))
        if grant.terms.kind == "allow":
            self._refuse_closed(made, grant, now)
        return made

    def _refuse_closed(self, overlay: Overlay, grant: Grant, now: int) -> None:
        """Refuse to allow a request to a host that the rules close: no grant lifts what they deny."""
        pattern, policy = grant.terms.host, self._engine.policy
        if pattern is None:
            return
        name = overlay.identity.sandbox
        trial = replace(policy, overlays={**policy.overlays, name: overlay})
        host = f"x.{pattern.suffix}" if pattern.stars else pattern.suffix
        decision = decide_host(trial, overlay.identity, host, grant.terms.port, now)
        if not decision.allowed:
            why = CODES[decision.code].message.removesuffix(".")
            raise UsageError(
                f"the rules close this host to the sandbox: {why[:1].lower()}{why[1:]} ({decision.code})",
                f"see {decision.place}" if decision.place else "change the rules",
            )
        if not decision.intercept:
            raise UsageError(
                "the requests of this host are not read (`intercept: never`)", f"see {decision.place}"
            )

    def _new_id(self) -> str:
        return f"g-{secrets.token_hex(_ID_BYTES)}"

    def _put(self, overlay: Overlay) -> None:
        name = overlay.identity.sandbox
        self._engine.set_overlay(name, overlay if overlay.grants else None)
        self._recorded[name] = overlay.grants

    def _record_grant(self, identity: Identity, grant: Grant) -> None:
        """Record a grant. Raises `AuditStoppedError` where it cannot be, unless it only denies."""
        name, terms = identity.sandbox, grant.terms
        if terms.kind != "deny" and not self._engine.audit.may_work(name):
            raise AuditStoppedError("the audit log takes no more records", "see `egress status`")
        _log.info("granted", sandbox=name, grant=grant.id, delegation=grant.delegation)
        self._event(
            "granted",
            sandbox=name,
            grant=grant.id,
            change=self._masked(terms_text(terms)),
            until=moment(grant.expires),
            delegation=grant.delegation,
            by=self._masked(terms.by),
        )

    def _refused(self, status: int, identity: Identity, terms: GrantTerms, error: UsageError) -> ControlReply:
        _log.warning("grant.refused", sandbox=identity.sandbox, reason=error.message)
        self._event(
            "grant.refused",
            sandbox=identity.sandbox,
            change=self._masked(terms_text(terms)),
            reason=error.message,
            by=self._masked(terms.by),
        )
        return _refusal(status, error)

    def _note(self, kind: str, sandbox: str, grant: Grant, **facts: str) -> None:
        """Record the end of a grant, which nothing can hold up."""
        _log.info(kind, sandbox=sandbox, grant=grant.id)
        try:
            change = self._masked(terms_text(grant.terms))
            self._event(kind, sandbox=sandbox, grant=grant.id, change=change, **facts)
        except EgressError as error:
            _log.error("grant.not_recorded", sandbox=sandbox, grant=grant.id, error=error.message)

    def _event(self, kind: str, /, **facts: str) -> None:
        self._engine.audit.event(kind, **facts, policy=self._engine.policy.digest)
        # Flushed at once: an action is on record before its answer.
        self._engine.audit.flush()

    def _masked(self, text: str) -> str:
        """Return a text without the secrets that are in it: a path can be one."""
        return self._engine.secrets.all_needles().mask(text.encode("utf-8", "replace")).data.decode()


def _refusal(status: int, error: EgressError) -> ControlReply:
    return ControlReply(status, {"error": error.message, "hint": error.hint})
