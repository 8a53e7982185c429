"""Denials that no added rule can fix, with the reason and a cure.

A limit, a canary or an upstream error would deny such a request again under any rules. Deciding the line
again cannot show this, because headers, query and body are not logged.
"""

from __future__ import annotations

from egress.errors import CODES
from egress.review.drafting.observation import Observation
from egress.rules.decide import paths
from egress.types import Verdict

_IN_NO_LINE = frozenset({"method.override", "path.override"})
_CURES = {
    "limit.": "change the limit, under `limits` in the rules",
    "redirect.refused": "set the allowed targets in `redirects` of the rule",
    "response.withheld": "set the handling of returned secrets in `scrub` of the rule",
    "secret.existing": "set the handling of an existing value in `on_existing` of the injection",
    "secret.unavailable": "run `egress doctor` to test the sources of secrets",
    "placeholder.": "set the slots of the placeholder in `in`",
    "proxy.identity": "run the client as the user that the listener serves, or give the listener a password; "
    "apt asks as the user _apt, and as yours with `-o APT::Sandbox::User=NAME`",
    "graphql.field": "add the field to `graphql` of a rule for this path, if it is harmless",
    "graphql.": "see `graphql` of the rule for this path",
    "mcp.tool": "add the tool to `mcp.tools` of a rule for this path, if sandboxes may call it",
    "mcp.": "see `mcp` of the rule for this path",
    "llm.model": "add the model to `llm.models` of a rule for this path",
    "llm.server_tool": "add the tool to `llm.server_tools` of a rule for this path, if it is harmless",
    "llm.budget": "raise the budget, under `budgets` in the rules",
    "llm.unpriced": "add the model under `prices` in the rules",
    "llm.": "see `llm` of the rule for this path",
    "git.repository": "add the repository to `fetch` or `push.repos` of a rule with `git:`",
    "git.ref": "add the ref to `push.refs` of a rule with `git:`, if sandboxes may move it",
    "git.": "see `git` of the rule for this repository",
    "handler.missing": "load the handler with `--handlers`, or let it answer requests of a virtual host",
    "handler.ambiguous": "give the rules for this path one handler",
    "handler.": "change the handler that the line names; the log of the proxy says why it failed",
    "body.": "see the rule for this path, which reads bodies",
    "proxy.": "this concerns access to the proxy, not the rules",
}
"""Cures for the operator, by prefix of the code. The hints of `CODES` are for sandboxes."""


def unfixable_reason(one: Observation) -> str:
    """Explain why no added rule can allow the request; empty if one may."""
    # The canary comes first: it must never get a suggestion, whatever else holds.
    if one.is_canary:
        return (
            f"it carried a canary, a planted value that must never be sent ({one.code}): no rule can allow"
            " it, and the sender has read the planted value"
        )
    if one.passed:
        return f"it was allowed and failed: {_described(one.code)}" if one.code in CODES else ""
    if one.verdict is Verdict.CUT:
        return f"it was allowed and cut later: {_described(one.code)}"
    if one.code.startswith(("git.", "graphql.", "llm.", "mcp.")):
        return f"a rule decides on its body: {_described(one.code)}"
    if not one.is_denied_by_rules:
        return f"no rule denied it, so a rule cannot allow it: {_described(one.code)}"
    if one.code in _IN_NO_LINE or (one.code == "path.ambiguous" and _is_plain(one.path)):
        return f"it was denied for a header or the query, and no rule lifts that: {_described(one.code)}"
    return ""


def _described(code: str) -> str:
    known = CODES.get(code)
    if known is None:
        return "this version does not know the reason"
    cure = next((f"; {cure}" for start, cure in _CURES.items() if code.startswith(start)), "")
    return f"{known.message[:1].lower()}{known.message[1:].removesuffix('.')} ({code}){cure}"


def _is_plain(path: str) -> bool:
    """True if all servers read the path the same way."""
    try:
        return paths.canonical_path(path, strict=True, encoded_slash=False) == path
    except paths.PathError:
        return False
