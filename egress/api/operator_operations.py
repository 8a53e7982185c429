"""The operations for whoever operates sandboxes: their rules, the log, and the proxy."""

from __future__ import annotations

from typing import Final

from egress.api import policy_schema
from egress.api.operation import Operation

_POLICY: Final = "/v1/sandboxes/{name}/policy"

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
        name="explain_request",
        method="POST",
        path=f"{_POLICY}/explain",
        summary="Decide on a request of a sandbox as the proxy would, and send nothing.",
        body=policy_schema.RequestSettings,
        answer=policy_schema.ExplanationView,
    ),
)
