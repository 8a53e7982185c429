"""Requests of git in words, and the bytes that stand for them."""

from __future__ import annotations

import pytest

from egress.inspect.git.git_kind import GitFetch, GitKind, RefChange
from egress.inspect.inspector import Facts
from egress.inspect.kinds import inspect_whole
from egress.rules.compile.asked_git import asked_git
from egress.rules.language.report import MeaningError
from egress.types import Head

X, MAIN = "refs/heads/agent/x", "refs/heads/main"


def items(text: str) -> tuple[object, ...]:
    asked = asked_git(text)
    head = Head("POST", "https", "git.example.com", 443, asked.target, asked.headers)
    found = inspect_whole(GitKind(), head, asked.body)
    assert isinstance(found, Facts), found
    return found.items


def test_a_fetch() -> None:
    assert items("fetch acme/app.git") == (GitFetch("acme/app"),)


def test_a_push_says_what_becomes_of_each_ref() -> None:
    found = items(f"push acme/app {MAIN} create {X} force refs/heads/a refs/heads/b delete refs/heads/c")
    kinds = [(each.ref, each.kind, each.is_forward) for each in found if isinstance(each, RefChange)]
    assert kinds == [
        (MAIN, "update", True),
        (X, "create", False),
        ("refs/heads/a", "update", False),
        ("refs/heads/b", "update", False),
        ("refs/heads/c", "delete", False),
    ]


def test_a_push_that_only_deletes() -> None:
    (found,) = items(f"push acme/app delete {X}")
    assert isinstance(found, RefChange)
    assert found.kind == "delete"


def test_options() -> None:
    (found,) = items(f"push acme/app {X} -o ci.skip -o a=b")
    assert isinstance(found, RefChange)
    assert found.options == ("ci.skip", "a=b")


def test_a_url_names_the_host() -> None:
    assert asked_git("fetch https://git.example.com/acme/app").target == (
        "https://git.example.com/acme/app/git-upload-pack"
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "fetch", "clone acme/app", "push acme/app", "push acme/app main", "push a delete"),
        f"push acme/app {X} -o",
    ],
)
def test_anything_else_is_a_mistake(text: str) -> None:
    with pytest.raises(MeaningError):
        asked_git(text)
