"""The lines that say which sandboxes come and go while the proxy runs, and which grants they are given.

They belong to the schema in `egress.audit.schema`, which lists every kind of line.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, UnsetType

from egress.audit.fields import (
    Claim,
    ClaimUid,
    Count,
    GrantCaller,
    GrantChange,
    GrantId,
    GrantSandbox,
    LogLine,
    Namespace,
    Pod,
    PodUid,
    PolicyInForce,
    Reason,
    Replica,
    about,
)


class SandboxAdded(LogLine, tag="sandbox.added"):
    """A sandbox was added while the proxy runs. In a cluster: it has connected for the first time."""

    sandbox: Annotated[Reason | None, about("The sandbox.", "agent-2")] = None
    profile: Annotated[Reason | None, about("The profile of rules that it has.", "coding")] = None
    authority: Annotated[
        Reason | None,
        about("The fingerprint of the certificate that it trusts.", ":".join(["9F", "2C", "11", "D4"] * 8)),
    ] = None
    policy: PolicyInForce = None
    namespace: Namespace = UNSET
    pod: Pod = UNSET
    pod_uid: PodUid = UNSET
    claim: Claim = UNSET
    claim_uid: ClaimUid = UNSET
    replica: Replica = UNSET


class SandboxRemoved(LogLine, tag="sandbox.removed"):
    """A sandbox was removed: its listeners are closed, and its authority is deleted.

    In a cluster: its pods have ended, or its claim has changed.
    """

    sandbox: Annotated[Reason | None, about("The sandbox.", "agent-2")] = None
    connections: Annotated[Count | None, about("How many open connections were closed for it.", 1)] = None
    policy: PolicyInForce = None
    reason: Annotated[
        Reason | UnsetType,
        about("Why, in a cluster: `identity.gone` or `identity.changed`.", "identity.gone"),
    ] = UNSET
    namespace: Namespace = UNSET
    pod: Pod = UNSET
    pod_uid: PodUid = UNSET
    claim: Claim = UNSET
    claim_uid: ClaimUid = UNSET
    replica: Replica = UNSET


class Granted(LogLine, tag="granted"):
    """A sandbox was given a [grant](../rules/delegation.md): a change to its rules, for a time."""

    sandbox: GrantSandbox = None
    grant: GrantId = None
    change: GrantChange = None
    until: Annotated[Reason | None, about("When it ends.", "2026-03-01T09:45:00Z")] = None
    delegation: Annotated[Reason | None, about("The delegation that it stays within.", "downloads")] = None
    by: GrantCaller = None
    policy: PolicyInForce = None


class GrantRevoked(LogLine, tag="grant.revoked"):
    """A grant was taken back before its end."""

    sandbox: GrantSandbox = None
    grant: GrantId = None
    change: GrantChange = None
    by: GrantCaller = None
    policy: PolicyInForce = None


class GrantExpired(LogLine, tag="grant.expired"):
    """The time of a grant is over."""

    sandbox: GrantSandbox = None
    grant: GrantId = None
    change: GrantChange = None
    policy: PolicyInForce = None


class GrantDropped(LogLine, tag="grant.dropped"):
    """A grant ended because new rules do not delegate it, or because its sandbox was removed."""

    sandbox: GrantSandbox = None
    grant: GrantId = None
    change: GrantChange = None
    reason: Annotated[Reason | None, about("Why it ended.", "the rules no longer delegate it")] = None
    policy: PolicyInForce = None


class GrantRefused(LogLine, tag="grant.refused"):
    """A change was asked for that the rules do not delegate, or that could have no effect."""

    sandbox: GrantSandbox = None
    change: GrantChange = None
    reason: Annotated[
        Reason | None, about("Why it was refused.", "the rules delegate nothing to this sandbox")
    ] = None
    by: GrantCaller = None
    policy: PolicyInForce = None


class HandlersChosen(LogLine, tag="handlers.chosen"):
    """The owner of a sandbox has chosen its [handlers](../guides/handlers.md), in place of those before."""

    sandbox: GrantSandbox = None
    change: Annotated[
        Reason | None, about("The handlers by host, by name alone.", "api.example.com: kv, all others: block")
    ] = None
    by: GrantCaller = None
    policy: PolicyInForce = None


class TicketAdded(LogLine, tag="ticket.added"):
    """A run in a sandbox has rights of its own from now on: those of a [ticket](../guides/tickets.md)."""

    sandbox: GrantSandbox = None
    ticket: Annotated[Reason | None, about("The id of the ticket.", "t-5e884898da280471")] = None
    profile: Annotated[Reason | None, about("The profile of the run.", "publisher")] = None
    until: Annotated[Reason | None, about("When it ends.", "2026-03-01T09:45:00Z")] = None
    by: GrantCaller = None
    policy: PolicyInForce = None


class TicketEnded(LogLine, tag="ticket.ended"):
    """A ticket holds no more, and the connections that came with it were cut."""

    sandbox: GrantSandbox = None
    ticket: Annotated[Reason | None, about("The id of the ticket.", "t-5e884898da280471")] = None
    reason: Annotated[
        Reason | None, about("Why it ended: `revoked`, `expired`, or `undelegated`.", "revoked")
    ] = None
    connections: Annotated[Count | None, about("How many open connections were cut.", 1)] = None
    policy: PolicyInForce = None
