"""Whether patterns meet or cover; the property tests hold both against brute force."""

from __future__ import annotations

import pytest

from egress.rules.compile.overlap import path_covers, paths_may_meet, rule_covers, rules_may_meet
from egress.rules.decide.git_predicate import GitPredicate, PushTerms
from egress.rules.decide.globs import path_glob
from egress.rules.decide.name_glob import NameGlob
from egress.rules.decide.predicates import NamedGlob, Predicates


@pytest.mark.parametrize(
    ("one", "other", "do"),
    [
        ("/a", "/a", True), ("/a", "/b", False), ("/a/**", "/a", True), ("/a/**", "/**/b", True),
        ("/a/*", "/*/b", True),
        ("/a/*", "/a", False), ("/a*", "/*b", True), ("/a*", "/b*", False), ("/*a*", "/b*b", True),
        ("/*", "/", False),
        ("/**", "/", True), ("/a/**/c", "/a/b", False), ("/a/", "/a", False),
        # What is wanted between two runs has to be there, all of it, and in this order.
        ("/a/b", "/a/**/c/**", False), ("/**/b/**", "/b", True), ("/**/b/c/**", "/a/b/c", True),
        ("/**/a/**/b/**", "/b/a", False), ("/**/a/**/b/**", "/a/b", True),
        # Both ends have to fit, also where there is room between them.
        ("/**/a", "/**/b", False), ("/a/**", "/b/**", False), ("/**/b/**/a", "/**/b", False),
        ("/**/b", "/**/b/**/a", False),
        ("/ab", "/a*", True), ("/ac", "/a*b*c", False), ("/abc", "/a*b*c", True), ("/*a", "/*b", False),
    ],
)  # fmt: skip
def test_two_patterns_meet(one: str, other: str, do: bool) -> None:
    assert paths_may_meet(path_glob(one), path_glob(other)) is do
    assert paths_may_meet(path_glob(other), path_glob(one)) is do


@pytest.mark.parametrize(
    ("wide", "narrow", "does"),
    [
        ("/**", "/a/*", True), ("/a/**", "/a/b/**", True), ("/a/**", "/a", True), ("/a/*", "/a/b*", True),
        ("/a*", "/ab*c", True), ("/a/b/**", "/a/**", False), ("/a/*", "/a/**", False), ("/a", "/b", False),
        ("/ab*", "/a*", False), ("/*", "/", False), ("/**/b", "/a/b", True),
        # An escape is one character.
        ("/*9", "/%C3%A9", False), ("/*é", "/%C3%A9", True), ("/*%A9", "/x%C3*%A9", True),
    ],
)  # fmt: skip
def test_one_pattern_covers_another(wide: str, narrow: str, does: bool) -> None:
    assert path_covers(path_glob(wide), path_glob(narrow)) is does


def predicates(methods: str = "", *paths: str) -> Predicates:
    return Predicates(
        methods=frozenset(methods.split()) if methods else None,
        paths=tuple(path_glob(path) for path in paths) if paths else None,
    )


def test_rules_meet_in_method_and_path() -> None:
    assert rules_may_meet(predicates(), predicates("GET", "/a"))
    assert not rules_may_meet(predicates("GET"), predicates("PUT"))
    assert not rules_may_meet(predicates("GET", "/a"), predicates("GET", "/b"))
    assert rules_may_meet(predicates("GET", "/a", "/b"), predicates("GET PUT", "/b"))


def test_a_rule_covers_what_has_no_more_methods_and_paths() -> None:
    assert rule_covers(predicates(), predicates("GET", "/a"))
    assert rule_covers(predicates("GET PUT", "/**"), predicates("GET", "/a"))
    assert not rule_covers(predicates("GET"), predicates())
    assert not rule_covers(predicates("GET", "/a"), predicates("GET"))
    assert not rule_covers(predicates("GET", "/a"), predicates("GET", "/a", "/b"))


def test_a_rule_covers_exactly_its_methods_and_each_path_by_one_of_its_own() -> None:
    assert rule_covers(predicates("GET"), predicates("GET"))
    assert rule_covers(predicates("GET HEAD"), predicates("GET"))
    assert not rule_covers(predicates("GET"), predicates("GET HEAD"))
    assert not rule_covers(predicates("GET"), predicates("PUT"))
    assert rule_covers(predicates("", "/a/**", "/b/**"), predicates("", "/a/x", "/b/y"))
    assert not rule_covers(predicates("", "/a/**", "/b/**"), predicates("", "/a/x", "/c"))


def test_a_rule_that_looks_inside_covers_nothing() -> None:
    inside = Predicates(query=(NamedGlob("a", None),))
    assert not rule_covers(inside, predicates("GET"))
    assert rule_covers(predicates(), inside)


def git(fetch: str = "", push: str | None = None) -> Predicates:
    repos = None if push is None else PushTerms(tuple(map(NameGlob, push.split())))
    return Predicates(
        paths=(path_glob("/**/info/refs"),), body=GitPredicate((*map(NameGlob, fetch.split()),), repos)
    )


@pytest.mark.parametrize(
    ("one", "other", "do"),
    [
        (git("acme/*"), git("octo/*"), False),
        (git("acme/*"), git("*/app"), True),
        (git("acme/**"), git("acme/tools/forge"), True),
        (git("acme/*"), git("acme/tools/forge"), False),
        # A request fetches or pushes, never both.
        (git("acme/app"), git(push="acme/app"), False),
        (git(push="acme/app"), git("acme/app", "octo/*"), False),
        (git(push="acme/app"), git(push="acme/app"), True),
        (git(push="acme/app"), git(push="octo/*"), False),
        # A deny of pushes may name no repository.
        (git(push="acme/app"), git(push=""), True),
    ],
)
def test_rules_on_git_meet_in_their_repositories(one: Predicates, other: Predicates, do: bool) -> None:
    assert rules_may_meet(one, other) is do
    assert rules_may_meet(other, one) is do
