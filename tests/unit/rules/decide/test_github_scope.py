"""Repositories of a scope: by name in any case, and by an id whose name the scope covers."""

from __future__ import annotations

import pytest

from egress.inspect.graphql.document import read_document
from egress.inspect.graphql.envelope import RootField
from egress.inspect.graphql.github.reach import DocumentReach
from egress.rules.decide.github_scope import GithubScope
from egress.rules.decide.name_glob import NameGlob
from tests.unit.inspect.graphql.scope_vectors import FOREIGN_ISSUE, HOME, HOME_ISSUE, HOME_NUMBER


def scope(*names: str, ids: str = "acme/app", exempt: tuple[str, ...] = ()) -> GithubScope:
    return GithubScope(tuple(map(NameGlob, names)), ((ids, HOME_NUMBER, HOME),), exempt)


def item(text: str, name: str = "repository") -> RootField:
    parsed = read_document(text).parsed
    assert parsed is not None
    return RootField("query", name, reach=DocumentReach(parsed, {}))


def named(owner: str, name: str) -> RootField:
    return item(f'{{repository(owner:"{owner}",name:"{name}"){{id}}}}')


def numbered(text: str) -> RootField:
    return item(f'{{node(id:"{text}"){{id}}}}', "node")


@pytest.mark.parametrize(
    ("made", "field", "is_covered"),
    [
        (scope("acme/app"), named("acme", "app"), True),
        (scope("acme/app"), named("ACME", "App"), True),
        (scope("acme/app"), named("acme", "app2"), False),
        (scope("acme/*"), named("acme", "app2"), True),
        (scope("acme/a*"), named("acme", "b"), False),
        (scope("*/*"), named("evil", "x"), True),
        (scope("acme/app"), numbered(HOME_ISSUE), True),
        (scope("Acme/*"), numbered(HOME_ISSUE), True),
        # An id counts only where the scope covers its name: one list serves reading and writing.
        (scope("acme/docs"), numbered(HOME_ISSUE), False),
        (scope("acme/*"), numbered(FOREIGN_ISSUE), False),
        (scope("*/*"), numbered(FOREIGN_ISSUE), True),
    ],
)
def test_a_repository_is_covered_by_name_or_id(made: GithubScope, field: RootField, is_covered: bool) -> None:
    miss = made.misses(field)
    assert (miss is None) is is_covered
    if miss is not None:
        assert miss.code == "graphql.scope"


def test_a_field_without_its_document_is_within_no_scope() -> None:
    miss = scope("*/*").misses(RootField("query", "repository"))
    assert miss is not None
    assert miss.code == "graphql.scope"


def test_an_exempt_field_is_not_followed() -> None:
    assert scope("acme/app", exempt=("repository",)).misses(named("evil", "x")) is None


def test_a_scope_is_shown_as_it_is_written() -> None:
    shown = scope("acme/*", exempt=("search",)).fields()
    assert shown == {"scope": {"github": ["acme/*"], "ids": [f"acme/app={HOME}"]}, "scope_exempt": ["search"]}
    assert GithubScope((NameGlob("a/b"),)).fields() == {"scope": {"github": ["a/b"]}}
