"""Compile predicates on bodies, and check how rules with them stand beside others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from egress.inspect.kinds import KINDS
from egress.rules.compile.git_rules import GIT_PATHS, git_predicate
from egress.rules.compile.graphql_rules import graphql_predicate
from egress.rules.compile.llm_rules import SLASHED_APIS, llm_paths, llm_predicate
from egress.rules.compile.mcp_rules import mcp_predicate
from egress.rules.compile.overlap import path_covers, rules_may_meet
from egress.rules.decide.body_predicate import BodyPredicate
from egress.rules.decide.entry import Entry, Rule
from egress.rules.decide.git_predicate import closed_paths
from egress.rules.decide.globs import PathGlob
from egress.rules.decide.llm_predicate import LlmPredicate
from egress.rules.language.model import Allow, Deny, Host
from egress.rules.language.report import DocumentCursor, Report

BODY_KEYS: Final = ("graphql", "mcp", "llm", "git")
"""The keys of predicates on bodies."""
_KEYS_OF_GIT = ("methods", "paths", "query", "content_type", "encoded_slash")
"""The keys of a rule that `git` stands for."""
_GIT_HINTS: Final[Mapping[str, str]] = {
    "methods": "leave it out: `git` has methods of its own",
    "paths": "leave it out: repositories are named by their whole path, as in `group/app`",
}


def body_predicate(model: Allow | Deny | Host, at: DocumentCursor) -> BodyPredicate | None:
    """Compile the predicate on the body that a rule has; None for a rule without one."""
    if isinstance(model, Host):
        return None
    kinds = [name for name in BODY_KEYS if getattr(model, name) is not None]
    made = _compiled(model, kinds[0], at) if kinds else None
    if made is None:
        return None
    for other in kinds[1:]:
        (at / other).key_error(f"`{other}` cannot be combined with `{kinds[0]}`", "write a rule for each")
    if model.websocket:
        (at / "websocket").key_error(
            f"`websocket` cannot be combined with `{kinds[0]}`", "give WebSockets a rule on another path"
        )
    others = set(model.methods or ()) - KINDS[made.kind].methods
    if others:
        (at / "methods").error(
            f"`{kinds[0]}` is not about {', '.join(sorted(others))}",
            "remove `methods`: the kind implies them",
        )
    return made


def _compiled(model: Allow | Deny, kind: str, at: DocumentCursor) -> BodyPredicate | None:
    """Compile the predicate of one kind."""
    here = at / kind
    if model.mcp is not None and kind == "mcp":
        return mcp_predicate(model.mcp, here)
    if model.llm is not None and kind == "llm":
        return llm_predicate(model.llm, here)
    if model.git is not None and kind == "git":
        # The keys that stand for a part of what `git` stands for.
        for key in _KEYS_OF_GIT:
            if getattr(model, key) is not None:
                (at / key).key_error(
                    f"`{key}` cannot be combined with `git`",
                    _GIT_HINTS.get(key, "leave it out: `git` stands for all of a request of git"),
                )
        return git_predicate(model.git, here)
    return None if model.graphql is None else graphql_predicate(model.graphql, here)


def implied_paths(body: BodyPredicate | None) -> tuple[PathGlob, ...] | None:
    """Return the paths that a predicate stands for; None for one without paths of its own."""
    if isinstance(body, LlmPredicate):
        return llm_paths(body.api)
    return GIT_PATHS if body is not None and body.kind == "git" else None


def takes_encoded_slash(body: BodyPredicate | None) -> bool:
    """Tell whether the paths of a predicate hold names with an encoded slash."""
    return isinstance(body, LlmPredicate) and body.api in SLASHED_APIS


def implied_methods(body: BodyPredicate) -> frozenset[str]:
    """Return the methods of a rule that writes none beside this predicate."""
    return KINDS[body.kind].methods


def check_body_rules(entry: Entry, at: Report) -> None:
    """Report rules on bodies of two kinds that can meet, and plain rules that a claim leaves idle."""
    bodies = [rule for rule in (*entry.allow, *entry.deny) if rule.widest.body is not None]
    for number, rule in enumerate(bodies):
        for other in bodies[:number]:
            if _kind(rule) != _kind(other) and rules_may_meet(rule.widest, other.widest):
                at.error(
                    rule.ref.place,
                    f"{rule.ref} and {other.ref} read the same body as two languages (at {other.ref.place})",
                    "give them paths that never meet",
                )
    claims = [rule for rule in entry.allow if rule.widest.body is not None]
    for rule in entry.allow:
        if rule.widest.body is None and (claim := _claim_over(rule, claims)) is not None:
            at.warning(
                rule.ref.place,
                f"{rule.ref} can never allow anything: {claim.ref} claims its paths for rules on bodies "
                f"(at {claim.ref.place})",
                "remove it, or narrow the paths of the rule on bodies",
                is_idle=True,
            )


def _kind(rule: Rule) -> str:
    return rule.widest.body.kind if rule.widest.body is not None else ""


def _claim_over(rule: Rule, claims: Sequence[Rule]) -> Rule | None:
    paths = rule.widest.paths
    for claim in claims:
        claimed = claim.predicates.paths
        if claimed is not None:
            claimed += closed_paths(claim.widest.body)
        if claimed is None or (
            paths and all(any(path_covers(glob, path) for glob in claimed) for path in paths)
        ):
            return claim
    return None
