"""The shapes of predicates on bodies."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from egress.rules.language.body_models import GitAllow, GitDeny, GraphqlAllow, GraphqlFields

PUSH = {"repos": ["acme/app"], "refs": ["refs/heads/**"]}


def test_a_push_is_a_fast_forward_that_creates_and_deletes_nothing_unless_it_says_so() -> None:
    push = GitAllow.model_validate({"push": PUSH}).push
    assert push is not None
    assert (push.create, push.update, push.delete, push.options) == (True, "fast-forward", False, None)


@pytest.mark.parametrize(
    "value",
    [
        {"push": {"repos": ["a/b"]}},
        {"push": {"refs": ["refs/heads/x"]}},
        {"push": PUSH | {"update": "force"}},
        {"push": PUSH | {"delete": "yes"}},
        {"clone": ["a/b"]},
    ],
)
def test_a_push_names_repositories_and_refs(value: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        GitAllow.model_validate(value)


def test_a_deny_takes_lists_alone() -> None:
    GitDeny.model_validate({"push": {"refs": ["refs/heads/x"]}})
    with pytest.raises(ValidationError):
        GitDeny.model_validate({"push": {"delete": True}})
    with pytest.raises(ValidationError):
        GraphqlFields.model_validate({"query": ["a"], "batch": 2})
    GraphqlAllow.model_validate({"query": ["a"], "batch": 2})
