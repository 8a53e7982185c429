"""Requests of git that a rule covers, and those that a deny is about; numbers are those of the vectors."""

from __future__ import annotations

import pytest

from egress.inspect.git.git_kind import GitFetch, GitItem, GitPushStart, RefChange
from egress.inspect.git.push_request import CommandKind
from egress.rules.decide.git_predicate import GitPredicate, PushTerms
from egress.rules.decide.globs import ValueGlob
from egress.rules.decide.name_glob import NameGlob

APP, OTHER = "acme/app", "acme/other"
MAIN, X, TAG = "refs/heads/main", "refs/heads/agent/x", "refs/tags/v1"


def globs(*texts: str) -> tuple[NameGlob, ...]:
    return tuple(map(NameGlob, texts))


def change(
    ref: str, kind: CommandKind = "create", *options: str, repository: str = APP, is_forward: bool = False
) -> RefChange:
    return RefChange(repository, ref, kind, "0" * 40, "1" * 40, is_forward, options)


PUSH = GitPredicate(push=PushTerms(globs(APP), globs("refs/heads/agent/**")))
FREE = GitPredicate(
    globs("acme/*"),
    PushTerms(globs(APP), globs("refs/heads/**", "refs/tags/**"), False, "any", True, (ValueGlob("ci.*"),)),
)


@pytest.mark.parametrize(
    ("predicate", "item", "code"),
    [
        pytest.param(PUSH, change(X), None, id="1"),
        pytest.param(PUSH, change(MAIN), "git.ref", id="2"),
        pytest.param(PUSH, change(X, "update", is_forward=True), None, id="4"),
        pytest.param(PUSH, change(X, "update"), "git.forward", id="5"),
        pytest.param(FREE, change(X, "update"), None, id="5 with any"),
        pytest.param(PUSH, change(X, "delete"), "git.delete", id="7"),
        pytest.param(FREE, change(X, "delete"), None, id="7 with delete"),
        pytest.param(PUSH, GitPushStart(APP), None, id="8"),
        pytest.param(PUSH, change("refs/heads/agent/PACK"), None, id="10"),
        pytest.param(PUSH, change("refs/heads/Agent/x"), "git.ref", id="11"),
        pytest.param(PUSH, change(X, "create", "ci.skip"), "git.option", id="14"),
        pytest.param(FREE, change(X, "update", "ci.skip"), None, id="14 with options"),
        pytest.param(FREE, change(X, "update", "ci.skip", "x"), "git.option", id="14 with others"),
        pytest.param(PUSH, GitPushStart(OTHER), "git.repository", id="18"),
        pytest.param(PUSH, GitFetch(APP), "git.repository", id="a push is no fetch"),
        pytest.param(FREE, GitFetch(OTHER), None, id="fetch"),
        pytest.param(FREE, GitFetch("evil/app"), "git.repository", id="fetch of another"),
        pytest.param(PUSH, change(X, repository=OTHER), "git.repository", id="another repository"),
        pytest.param(PUSH, change(X, repository="ACME/app"), "git.repository", id="another case"),
        pytest.param(GitPredicate(globs("**")), change(X), "git.repository", id="a fetch is no push"),
        pytest.param(FREE, change(X), "git.create", id="create"),
        pytest.param(FREE, change(TAG, "update"), None, id="any tag"),
    ],
)
def test_covers_what_is_written(predicate: GitPredicate, item: GitItem, code: str | None) -> None:
    miss = predicate.misses(item)
    assert (miss.code if miss else None) == code


def test_no_tag_moves_forward() -> None:
    tags = GitPredicate(push=PushTerms(globs(APP), globs("refs/tags/**")))
    assert tags.misses(change(TAG)) is None
    miss = tags.misses(change(TAG, "update", is_forward=True))
    assert miss is not None
    assert miss.code == "git.tag"


def test_an_item_of_another_kind_is_covered_by_none_and_denied_by_each() -> None:
    miss = FREE.misses("query.viewer")
    assert miss is not None
    assert miss.code == "internal"
    assert GitPredicate().denies("query.viewer")


REFS = GitPredicate(push=PushTerms(refs=globs("refs/heads/main")))
REPOSITORY = GitPredicate(globs("acme/secret"), PushTerms(globs("acme/secret")))
OPTIONS = GitPredicate(push=PushTerms(options=(ValueGlob("merge_request.*"),)))


@pytest.mark.parametrize(
    ("predicate", "item", "expected"),
    [
        (REFS, change(MAIN), True),
        (REFS, change("refs/heads/MAIN"), True),
        (REFS, change(X), False),
        (REFS, GitPushStart(APP), False),
        (REFS, GitFetch(APP), False),
        (REPOSITORY, GitFetch("Acme/Secret"), True),
        (REPOSITORY, GitPushStart("acme/SECRET"), True),
        (REPOSITORY, change(X, repository="acme/Secret"), True),
        (REPOSITORY, change(X), False),
        (REPOSITORY, GitFetch(APP), False),
        (OPTIONS, change(X, "create", "a", "Merge_Request.create"), True),
        (OPTIONS, change(X, "create", "a"), False),
        (OPTIONS, GitPushStart(APP), False),
    ],
)
def test_a_deny_is_about_what_is_written_in_any_case(
    predicate: GitPredicate, item: GitItem, expected: bool
) -> None:
    assert predicate.denies(item) is expected


def test_is_written_as_it_was_read() -> None:
    assert FREE.fields() == {
        "fetch": ["acme/*"],
        "push": {
            "repos": [APP],
            "refs": ["refs/heads/**", "refs/tags/**"],
            "create": False,
            "update": "any",
            "delete": True,
            "options": ["ci.*"],
        },
    }
    assert PUSH.fields() == {"push": {"repos": [APP], "refs": ["refs/heads/agent/**"]}}
    assert OPTIONS.fields() == {"push": {"options": ["merge_request.*"]}}
