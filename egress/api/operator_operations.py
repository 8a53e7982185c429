"""The operations for whoever operates sandboxes: their rules, the log, and the proxy."""

from __future__ import annotations

from typing import Final

from egress.api import handler_schema, log_schema, policy_schema, rules_schema, ticket_schema
from egress.api.operation import Operation

_POLICY: Final = "/v1/sandboxes/{name}/policy"
_HANDLERS: Final = "/v1/sandboxes/{name}/handlers"
_TICKETS: Final = "/v1/sandboxes/{name}/tickets"

OPERATOR_OPERATIONS: Final = (
    Operation(
        name="show_policy",
        method="GET",
        path=_POLICY,
        summary="Return the grants of a sandbox, and what may be granted to it.",
        answer=policy_schema.PolicyView,
    ),
    Operation(
        name="grant",
        method="POST",
        path=f"{_POLICY}/grants",
        summary="Allow or deny requests of a sandbox for a time, or choose its profile, within `delegate:`.",
        body=policy_schema.GrantSettings,
        answer=policy_schema.GrantView,
        status=201,
    ),
    Operation(
        name="undo_grant",
        method="DELETE",
        path=f"{_POLICY}/grants/{{grant}}",
        summary="Take a grant back; at a port, one that was made there.",
        answer=policy_schema.GrantView,
    ),
    Operation(
        name="show_handlers",
        method="GET",
        path=_HANDLERS,
        summary="Return the handlers that were chosen for a sandbox, and those that can be.",
        answer=handler_schema.HandlersView,
    ),
    Operation(
        name="choose_handlers",
        method="POST",
        path=_HANDLERS,
        summary="Choose the handlers of a sandbox; not at a port.",
        body=handler_schema.HandlerSettings,
        answer=handler_schema.HandlersView,
    ),
    Operation(
        name="add_ticket",
        method="POST",
        path=_TICKETS,
        summary="Give one run rights of its own, at a port within `delegate:`: its ticket is shown once.",
        body=ticket_schema.TicketSettings,
        answer=ticket_schema.TicketView,
        status=201,
    ),
    Operation(
        name="end_ticket",
        method="DELETE",
        path=f"{_TICKETS}/{{ticket}}",
        summary="Revoke a ticket by its id, at a port one that was made there, and cut its connections.",
    ),
    Operation(
        name="explain_request",
        method="POST",
        path=f"{_POLICY}/explain",
        summary="Decide on a request of a sandbox as the proxy would, and send nothing.",
        body=policy_schema.RequestSettings,
        answer=policy_schema.ExplanationView,
    ),
    Operation(
        name="query_audit",
        method="GET",
        path="/v1/sandboxes/{name}/audit",
        summary="Return lines of the log about a sandbox of this run, newest first; as events, follow them.",
        query=log_schema.AuditQuery,
        returns="lines",
        can_follow=True,
    ),
    Operation(
        name="query_log",
        method="GET",
        path="/v1/log",
        summary="Return lines of the log of this run, newest first; as events, follow them.",
        query=log_schema.LogQuery,
        returns="lines",
        can_follow=True,
        owner_only=True,
    ),
    Operation(
        name="suggest_rule",
        method="GET",
        path="/v1/log/suggestion",
        summary="Return the smallest change of the rules that would allow a denied request.",
        query=log_schema.SuggestionQuery,
        answer=log_schema.SuggestionView,
        owner_only=True,
    ),
    Operation(
        name="check_rules",
        method="POST",
        path="/v1/rules/check",
        summary="Find every mistake in the text of a rule file, which is not put in force.",
        body=rules_schema.RulesText,
        answer=rules_schema.CheckView,
        owner_only=True,
    ),
    Operation(
        name="explain_for_profile",
        method="POST",
        path="/v1/rules/explain",
        summary="Decide on a request of any sandbox of a profile as the proxy would, and send nothing.",
        body=rules_schema.ProfileRequest,
        answer=policy_schema.ExplanationView,
        owner_only=True,
    ),
    Operation(
        name="reload_rules",
        method="POST",
        path="/v1/rules/reload",
        summary="Read the rule files of the proxy again; files with a mistake change nothing.",
        answer=rules_schema.ReloadView,
        owner_only=True,
    ),
    Operation(
        name="get_proxy",
        method="GET",
        path="/v1/proxy",
        summary="Return the status of the proxy: its rules, its requests, and what is revoked.",
        answer=rules_schema.ProxyView,
        owner_only=True,
    ),
    Operation(
        name="list_secrets",
        method="GET",
        path="/v1/secrets",
        summary="Return the names of the secrets, and whether each was resolved; never a value.",
        answer=rules_schema.SecretsView,
        owner_only=True,
    ),
    Operation(
        name="probe",
        method="GET",
        path="/v1/healthz",
        summary="Answer 200 if the proxy can serve, and 503 if not; needs no token.",
        returns="bytes",
        needs_token=False,
    ),
)
