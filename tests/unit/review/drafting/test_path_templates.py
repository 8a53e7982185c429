"""Path patterns: generalised only after enough were seen, and it is said for how many."""

from __future__ import annotations

import sys

from egress.review.drafting.path_templates import (
    MAX_DEPTH,
    MAX_PATTERNS,
    MIN_IDENTIFIERS,
    MIN_WORDS,
    NAMES_LABEL,
    make_templates,
)


def made(*paths: str, generalising: bool = True) -> list[str]:
    return [one.pattern for one in make_templates(dict.fromkeys(paths, 1), generalising=generalising).kept]


def test_below_the_least_nothing_is_generalised() -> None:
    assert MIN_IDENTIFIERS == 3
    assert made("/issues/1", "/issues/2") == ["/issues/1", "/issues/2"]
    assert made("/issues/1", "/issues/2", "/issues/3") == ["/issues/*"]


def test_says_what_an_asterisk_stands_for_and_for_how_many() -> None:
    (one,) = make_templates({"/issues/1": 5, "/issues/2": 1, "/issues/3": 1}).kept
    assert (one.count, one.paths, one.stars) == (7, 3, (("numbers", 3),))


def test_what_is_below_an_identifier_is_told_apart() -> None:
    assert made("/u/1/a", "/u/2/b", "/u/3/a") == ["/u/*/a", "/u/*/b"]


def test_each_shape_is_counted_by_itself() -> None:
    assert made("/x/1", "/x/2", "/x/2026-01-01", "/x/word") == ["/x/1", "/x/2", "/x/2026-01-01", "/x/word"]


def test_words_are_joined_only_from_many_on_and_never_at_the_top() -> None:
    words = [f"w{chr(97 + n)}{chr(97 + n)}" for n in range(MIN_WORDS)]
    assert made(*(f"/repos/{word}/issues" for word in words[1:])) != ["/repos/*/issues"]
    (one,) = make_templates({f"/repos/{word}/issues": 1 for word in words}).kept
    assert (one.pattern, one.stars) == ("/repos/*/issues", ((NAMES_LABEL, MIN_WORDS),))
    assert len(made(*(f"/{word}" for word in words))) == MIN_WORDS


def test_words_with_other_things_below_stay() -> None:
    words = [f"w{chr(97 + n)}{chr(97 + n)}" for n in range(MIN_WORDS)]
    found = made(*(f"/repos/{word}/issues" for word in words), "/repos/own/secrets")
    assert found == ["/repos/*/issues", "/repos/own/secrets"]


def test_a_pattern_that_another_takes_in_is_dropped_and_counted_there() -> None:
    found = make_templates({"/x/1": 1, "/x/2": 1, "/x/3": 1, "/x/search": 4}).kept
    assert [(one.pattern, one.count, one.paths) for one in found] == [("/x/*", 7, 4)]


def test_without_generalising_only_what_must_is_hidden() -> None:
    token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    assert made("/1", "/2", "/3", f"/t/{token}", generalising=False) == ["/1", "/2", "/3", "/t/*"]


def test_one_value_that_looks_like_a_credential_is_enough() -> None:
    (one,) = make_templates({"/t/ghp_abcdefghijklmnopqrstuvwxyz0123456789": 1}).kept
    assert one.pattern == "/t/*"
    assert one.stars[0][1] == 1


def test_a_cut_path_keeps_what_is_whole_of_it() -> None:
    (one,) = make_templates({}, {"/a/b/half": 2}).kept
    assert (one.pattern, one.count) == ("/a/b/**", 2)
    assert [one.pattern for one in make_templates({}, {"/half": 1}).kept] == ["/**"]


def test_very_deep_paths_end_in_a_rest() -> None:
    (pattern,) = made("/a" * (MAX_DEPTH + 5))
    assert pattern == "/a" * MAX_DEPTH + "/**"


def test_the_rarest_of_too_many_are_left_out() -> None:
    # Two words to each, so that nothing is alike.
    paths = {f"/w{n:03}x": n + 1 for n in range(MAX_PATTERNS + 2)}
    found = make_templates(paths)
    assert len(found.kept) == MAX_PATTERNS
    assert sorted(one.count for one in found.left_out) == [1, 2]


def test_an_escaped_slash_is_kept_in_mind() -> None:
    (one,) = make_templates({"/a%2F1": 1}).kept
    assert one.has_slash


def test_many_asterisks_cost_no_more_than_others() -> None:
    """Calls are counted, not time: a step for each pair of characters would be a million of them."""
    steps = 0

    def count(*_: object) -> None:
        nonlocal steps
        steps += 1

    paths = {f"/{'a*' * 500}b{number}": 1 for number in range(3)}
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        found = make_templates(paths)
    finally:
        sys.setprofile(before)
    assert len(found.kept) == 3
    assert steps < 50_000


def test_branches_below_many_identifiers_are_joined_once() -> None:
    (one,) = make_templates({f"/a/{number}/x/{number}": 1 for number in range(40)}).kept
    assert (one.pattern, one.count, one.paths) == ("/a/*/x/*", 40, 40)
