"""The texts of predicates on bodies in which placeholders may stand."""

from __future__ import annotations

from collections.abc import Callable

from egress.rules.decide.body_predicate import BodyPredicate
from egress.rules.decide.git_predicate import GitPredicate
from egress.rules.decide.graphql_predicate import GraphqlPredicate


def with_texts(body: BodyPredicate | None, change: Callable[[str], str]) -> BodyPredicate | None:
    """Return a predicate with each text changed in which a placeholder may stand."""
    return body.with_texts(change) if isinstance(body, GitPredicate | GraphqlPredicate) else body
