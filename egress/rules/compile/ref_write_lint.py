"""Lint: calls of a forge's API that move refs, beside rules that say which refs a push may move.

A sandbox that may merge, or commit a file, by the API moves the branches that its pushes must not: rules on
refs hold where all ways to a ref have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from egress.rules.compile.overlap import rule_covers, rules_may_meet
from egress.rules.decide.entry import Entry, Rule
from egress.rules.decide.git_predicate import GitPredicate
from egress.rules.decide.globs import GlobError, path_glob
from egress.rules.decide.graphql_predicate import GraphqlPredicate
from egress.rules.decide.name_glob import NameGlob
from egress.rules.decide.policy import Policy
from egress.rules.decide.predicates import Predicates
from egress.rules.language.report import Report


@dataclass(frozen=True, slots=True)
class Forge:
    """A forge: where its API is, and which calls of it move refs."""

    api: str
    """The path before all calls."""
    repository: str
    """The part of it that is the path of a repository; empty where the API names repositories otherwise."""
    calls: tuple[str, ...]
    """Method and path, below `api`."""
    graphql: str
    mutations: tuple[str, ...]


GITHUB: Final = Forge(
    "/repos/*/*",
    "*/*",
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
    "",
    (
        "POST /repository/branches",
        "DELETE /repository/branches/*",
        "DELETE /repository/merged_branches",
        "POST /repository/commits/**",
        "POST /repository/files/**",
        "PUT /repository/files/**",
        "DELETE /repository/files/**",
        "PUT /repository/submodules/*",
        "POST /repository/changelog",
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
        is_github = entry.key == GITHUB_HOSTS[0]
        forge = GITHUB if is_github else GITLAB
        api = entries.get(GITHUB_HOSTS[1]) if is_github else entry
        pushes = [(rule, repos) for rule in entry.allow if (repos := _pushed(rule))]
        if api is None:
            continue
        for rule in api.allow:
            calls = ((each, _calls(policy, api, rule, forge, repos)) for each, repos in pushes)
            push, call = next(((each, call) for each, found in calls for call in found), (None, ""))
            if push is not None:
                report.warning(
                    rule.ref.place,
                    f"{rule.ref} allows `{call}`, which moves refs that {push.ref} closes for pushes",
                    "narrow its methods and paths, or deny that call",
                )


def _pushed(rule: Rule) -> tuple[NameGlob, ...]:
    """Return the repositories in which a rule says which refs may be pushed."""
    body = rule.widest.body
    return body.push.repos if isinstance(body, GitPredicate) and body.push is not None else ()


def _calls(
    policy: Policy, entry: Entry, rule: Rule, forge: Forge, repositories: Sequence[NameGlob]
) -> Iterator[str]:
    """Yield the calls of the forge in these repositories that a rule allows, and no deny closes."""
    body = rule.widest.body
    graphql = Predicates(frozenset({"POST"}), (path_glob(forge.graphql),))
    if isinstance(body, GraphqlPredicate):
        mutations = dict(body.types).get("mutation", ())
        fields = (name for name in forge.mutations if any(glob.matches(name) for glob in mutations))
        yield from (f"mutation {{ {name} }}" for name in fields)
    elif body is None:
        paths = tuple(_api_path(forge, each) for each in repositories)
        calls = {f"POST {forge.graphql}": graphql} | {call: _call(paths, call) for call in forge.calls}
        denies = (*entry.deny, *policy.deny)
        for text, call in calls.items():
            is_closed = any(rule_covers(deny.predicates, call) for deny in denies)
            if not is_closed and rules_may_meet(rule.widest, call):
                yield text


def _api_path(forge: Forge, repository: NameGlob) -> str:
    """Return the path before all calls about a repository; before those about any, where it cannot tell."""
    if not forge.repository:
        return forge.api
    path = forge.api.removesuffix(forge.repository) + repository.text
    try:
        path_glob(path)
    except GlobError:
        return forge.api
    return path


def _call(paths: Sequence[str], text: str) -> Predicates:
    method, _, call = text.partition(" ")
    globs = tuple(path_glob(path + call, encoded_slash=True) for path in dict.fromkeys(paths))
    return Predicates(frozenset({method}), globs)
