"""Lint: calls of a forge's API that move refs, beside rules that say which refs a push may move.

A sandbox that may merge, or commit a file, by the API moves the branches that its pushes must not: rules on
refs hold where all ways to a ref have them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from egress.rules.compile.overlap import rule_covers, rules_may_meet
from egress.rules.decide.entry import Entry, Rule
from egress.rules.decide.git_predicate import GitPredicate
from egress.rules.decide.globs import path_glob
from egress.rules.decide.graphql_predicate import GraphqlPredicate
from egress.rules.decide.policy import Policy
from egress.rules.decide.predicates import Predicates
from egress.rules.language.report import Report


@dataclass(frozen=True, slots=True)
class Forge:
    """A forge: where its API is, and which calls of it move refs."""

    api: str
    """The path before all calls."""
    calls: tuple[str, ...]
    """Method and path, below `api`."""
    graphql: str
    mutations: tuple[str, ...]


GITHUB: Final = Forge(
    "/repos/*/*",
    (
        "POST /git/refs/**",
        "PATCH /git/refs/**",
        "DELETE /git/refs/**",
        "PUT /contents/**",
        "DELETE /contents/**",
        "POST /merges",
        "POST /merge-upstream",
        "PUT /pulls/*/merge",
        "PUT /pulls/*/update-branch",
        "POST /branches/*/rename",
        "POST /releases",
        "PATCH /releases/*",
    ),
    "/graphql",
    (
        *("createRef", "updateRef", "updateRefs", "deleteRef", "createCommitOnBranch", "mergeBranch"),
        *("mergePullRequest", "enablePullRequestAutoMerge", "enqueuePullRequest", "updatePullRequestBranch"),
        *("revertPullRequest", "createLinkedBranch"),
    ),
)
GITLAB: Final = Forge(
    "/api/v4/projects/*",
    (
        "POST /repository/branches",
        "DELETE /repository/branches/*",
        "DELETE /repository/merged_branches",
        "POST /repository/commits/**",
        "POST /repository/files/**",
        "PUT /repository/files/**",
        "DELETE /repository/files/**",
        "POST /repository/tags",
        "DELETE /repository/tags/*",
        "PUT /merge_requests/*/merge",
        "PUT /merge_requests/*/rebase",
        "POST /releases",
    ),
    "/api/graphql",
    ("commitCreate", "createBranch", "branchDelete", "mergeRequestAccept", "tagCreate", "tagDelete"),
)
GITHUB_HOSTS: Final = ("github.com", "api.github.com")
"""The host that is pushed to, and the host of its API; every other forge has one for both."""


def lint_ref_writes(policy: Policy, report: Report) -> None:
    """Warn of each rule that allows such a call beside rules on the refs of pushes."""
    entries = {entry.key: entry for entry in policy.entries.values()}
    for entry in entries.values():
        push = next((rule for rule in entry.allow if _has_refs(rule)), None)
        if push is None:
            continue
        is_github = entry.key == GITHUB_HOSTS[0]
        api = entries.get(GITHUB_HOSTS[1]) if is_github else entry
        if api is None:
            continue
        for rule in api.allow:
            call = next(_calls(policy, api, rule, GITHUB if is_github else GITLAB), None)
            if call is not None:
                report.warning(
                    rule.ref.place,
                    f"{rule.ref} allows `{call}`, which moves refs that {push.ref} closes for pushes",
                    "narrow its methods and paths, or deny that call",
                )


def _has_refs(rule: Rule) -> bool:
    body = rule.widest.body
    return isinstance(body, GitPredicate) and body.push is not None


def _calls(policy: Policy, entry: Entry, rule: Rule, forge: Forge) -> Iterator[str]:
    """Yield the calls of the forge that a rule allows, and no deny closes."""
    body = rule.widest.body
    graphql = Predicates(frozenset({"POST"}), (path_glob(forge.graphql),))
    if isinstance(body, GraphqlPredicate):
        mutations = dict(body.types).get("mutation", ())
        fields = (name for name in forge.mutations if any(glob.matches(name) for glob in mutations))
        yield from (f"mutation {{ {name} }}" for name in fields)
    elif body is None:
        calls = {f"POST {forge.graphql}": graphql} | {call: _call(forge, call) for call in forge.calls}
        denies = (*entry.deny, *policy.deny)
        for text, call in calls.items():
            is_closed = any(rule_covers(deny.predicates, call) for deny in denies)
            if not is_closed and rules_may_meet(rule.widest, call):
                yield text


def _call(forge: Forge, text: str) -> Predicates:
    method, _, path = text.partition(" ")
    return Predicates(frozenset({method}), (path_glob(forge.api + path, encoded_slash=True),))
