"""Bodies of requests that somebody asks about, in a test of a rule file or on the command line."""

from __future__ import annotations

import json
from dataclasses import replace

from egress.inspect.inspector import Facts, Unreadable
from egress.inspect.kinds import KINDS, inspect_whole
from egress.rules.decide.decision import decide
from egress.rules.decide.policy import Policy
from egress.types import Decision, Head, Headers, Identity

JSON_TYPE = ("content-type", "application/json")


def json_body(value: object) -> bytes:
    """Return a value as the body of a request."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8")


def graphql_body(document: str) -> bytes:
    """Return the body of a request with this document and nothing else."""
    return json_body({"query": document})


def with_json_type(headers: Headers) -> Headers:
    """Return the headers of a request with a JSON body; a type that they name stays."""
    return headers if any(name == "content-type" for name, _ in headers) else (*headers, JSON_TYPE)


def decide_whole(
    policy: Policy, identity: Identity, head: Head, now: int, body: bytes
) -> tuple[Decision, Facts | Unreadable | None]:
    """Decide on a request whose body is at hand, as the proxy does.

    Also returns what the body said; None where no rule asked.
    """
    decision = decide(policy, identity, head, now)
    kind = KINDS.get(decision.inspects)
    if kind is None:
        return decision, None
    found = inspect_whole(kind, replace(head, target=decision.target), body)
    return decide(policy, identity, head, now, found), found
