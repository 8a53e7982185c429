"""Where placeholders stand in predicates on bodies."""

from __future__ import annotations

import pytest

from egress.rules.decide.body_predicate import BodyPredicate
from egress.rules.decide.git_predicate import GitPredicate
from egress.rules.decide.github_scope import GithubScope
from egress.rules.decide.globs import ValueGlob
from egress.rules.decide.graphql_predicate import GraphqlPredicate
from egress.rules.decide.mcp_predicate import McpPredicate
from egress.rules.decide.name_glob import NameGlob
from egress.rules.decide.placeholder_texts import with_texts


def graphql(*names: str) -> GraphqlPredicate:
    scope = GithubScope(tuple(map(NameGlob, names))) if names else None
    return GraphqlPredicate((("query", (ValueGlob("x"),)),), scope=scope)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, None),
        (GitPredicate((NameGlob("x/y"),)), GitPredicate((NameGlob("z/y"),))),
        (graphql("x/y", "x/x"), graphql("z/y", "z/z")),
        (
            GraphqlPredicate((("query", (ValueGlob("x"),)),)),
            GraphqlPredicate((("query", (ValueGlob("x"),)),)),
        ),
        (McpPredicate(), McpPredicate()),
    ],
)
def test_names_of_repositories_change_and_root_fields_stay(
    before: BodyPredicate | None, after: BodyPredicate | None
) -> None:
    assert with_texts(before, lambda text: text.replace("x", "z")) == after
