"""Patterns for paths and values; the property tests hold them against an obvious matcher."""

from __future__ import annotations

import re

import pytest

from egress.rules.decide.globs import GlobError, ValueGlob, path_glob


def fits(pattern: str, path: str) -> bool:
    return re.match(path_glob(pattern, encoded_slash=True).regex() + r"\Z", path) is not None


def denies(pattern: str, path: str) -> bool:
    return (
        re.match(path_glob(pattern, encoded_slash=True).deny_regex(), path, re.IGNORECASE | re.ASCII)
        is not None
    )


def test_a_pattern_is_brought_to_the_canonical_spelling() -> None:
    assert path_glob("/%7ea/%3a").text == "/~a/%3A"
    assert path_glob("/é").text == "/%C3%A9"
    assert path_glob("/a/**").segments == ("a", "**")


def test_knows_everything_and_a_literal() -> None:
    assert path_glob("/**").is_everything
    assert not path_glob("/**/a").is_everything
    assert path_glob("/a/b").is_literal
    assert not path_glob("/a/*").is_literal


@pytest.mark.parametrize(
    "text", ["", "a", "/a?b", "/a\\b", "/a**", "/../a", "/a//b", "/a;b", "/a b", "/%zz", "/%2541", "/\ud800#"]
)
def test_refuses_a_pattern_that_nothing_can_match(text: str) -> None:
    with pytest.raises(GlobError):
        path_glob(text)


def test_two_double_stars_are_as_good_as_one() -> None:
    assert path_glob("/a/**/**/b").regex() == path_glob("/a/**/b").regex()


def test_a_star_takes_an_escape_as_one_character() -> None:
    assert fits("/a*b", "/a%2Fb")
    assert fits("/*2", "/%3A2")
    assert not fits("/*A", "/%3A")
    assert not fits("/*2F", "/%2F")
    assert fits("/*%2Fb", "/a%2Fb")


@pytest.mark.parametrize("digit", "0123456789ABCDEFabcdef")
def test_a_star_never_ends_inside_an_escape(digit: str) -> None:
    assert fits(f"/*{digit}", f"/%EE{digit}")
    assert not fits(f"/*{digit}", f"/x%E{digit.upper()}")
    assert not fits(f"/*{digit}*", f"/x%E{digit.upper()}")
    assert not denies(f"/*{digit}", f"/x%E{digit.upper()}")


def test_a_star_alone_takes_no_empty_segment() -> None:
    assert fits("/*", "/a")
    assert not fits("/*", "/")
    assert not fits("/a/*", "/a/")
    assert fits("/a*", "/a")


def test_an_escaped_slash_has_to_be_asked_for() -> None:
    with pytest.raises(GlobError):
        path_glob("/a%2Fb")
    assert path_glob("/a%2Fb", encoded_slash=True).text == "/a%2Fb"


def test_a_piece_between_stars_is_searched_from_the_left() -> None:
    assert fits("/*ab*ab", "/abab")
    assert fits("/*ab*ab", "/xabyabab")
    assert not fits("/*ab*ab", "/ab")
    assert not fits("/*ab*ab", "/ababa")


def test_every_run_between_double_stars_is_looked_for_in_turn() -> None:
    for path in ("/a/b/c", "/x/a/y/b/z/c", "/a/a/b/b/c/c"):
        assert fits("/**/a/**/b/**/c", path)
    for path in ("/a/c", "/a/b", "/b/a/c", "/a/bX/c", "/aX/b/c"):
        assert not fits("/**/a/**/b/**/c", path)


def test_special_characters_of_expressions_are_plain() -> None:
    assert fits("/a.b+(c)[d]$", "/a.b+(c)[d]$")
    assert not fits("/a.b", "/axb")


def test_a_deny_allows_for_case_and_one_slash() -> None:
    assert denies("/a/B", "/A/b/")
    assert denies("/a/", "/a")
    assert not denies("/a", "/a//")
    assert denies("/", "/")
    assert denies("/**", "/anything/at/all")
    assert not denies("/a", "/ab")
    assert not denies("/a/b", "/a")
    assert not denies("/a/b", "/a/")
    assert denies("/**/a", "/x/a/")
    assert denies("/**/", "/x/a")


@pytest.mark.parametrize(
    ("pattern", "value", "does"),
    [
        ("", "", True), ("", "a", False), ("*", "", True), ("*", "a/b", True), ("a*", "a", True),
        ("*a", "ba", True),
        ("a*a", "a", False), ("a*a", "aa", True), ("a*b*c", "abc", True), ("a*b*c", "acb", False),
        ("**", "", True),
        ("a*b", "ac", False), ("a*b", "cb", False), ("*a*a", "a", False), ("*ab*b", "ab", False),
        ("a*ab*", "ab", False), ("*ab*ab*", "ab", False), ("*ab*ab*", "abab", True), ("a*a*a", "aa", False),
        ("*a*", "bab", True), ("a?c", "abc", False), ("[a]", "a", False),
    ],
)  # fmt: skip
def test_a_value_pattern(pattern: str, value: str, does: bool) -> None:
    assert ValueGlob(pattern).matches(value) is does


def test_case_is_folded_in_ascii_alone() -> None:
    assert ValueGlob("ABC*").matches("abcd", ignore_case=True)
    assert not ValueGlob("K").matches("\u212a", ignore_case=True)
    assert not ValueGlob("\xc9").matches("\xe9", ignore_case=True)
    assert not ValueGlob("A").matches("a")


def test_every_letter_is_folded_where_case_is_ignored() -> None:
    for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ":
        assert ValueGlob(letter).matches(letter.lower(), ignore_case=True)
        assert ValueGlob(letter.lower()).matches(letter, ignore_case=True)
        assert not ValueGlob(letter).matches(letter.lower())
    assert not ValueGlob("@[").matches("`{", ignore_case=True)


def test_says_how_a_space_is_written() -> None:
    with pytest.raises(GlobError) as caught:
        path_glob("/my notes/**")
    assert caught.value.hint == "write a space as %20"
    assert path_glob("/my%20notes/**").segments == ("my%20notes", "**")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/user/keys", "/user/keys.json"),
        ("/user/keys", "/user/keys.JSON"),
        ("/user/keys", "/user/keys."),
        ("/user/keys", "/user/keys.json/"),
        ("/user/keys", "/user/keys.tar.gz"),
        ("/user/keys/", "/user/keys.json"),
        ("/user/keys/**", "/user/keys.json"),
        ("/user/keys/**", "/user/keys.json/"),
        ("/a/*/keys", "/a/b/keys.xml"),
        ("/**/keys", "/a/b/keys.xml"),
        ("/a/*keys", "/a/mykeys.xml"),
        ("/a/v1.0", "/a/v1.0.json"),
    ],
)
def test_a_deny_also_fits_a_format_behind_the_last_named_segment(pattern: str, path: str) -> None:
    """E.g. GitLab and Rails: the route `/user/keys` answers for `/user/keys.json`."""
    assert denies(pattern, path)
    assert not fits(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/user/keys", "/user/keysjson"),
        ("/user/keys", "/user/keys.json/1"),
        ("/user/keys", "/user.json/keys"),
        ("/user/keys/**", "/user/keys.json/1"),
        ("/user/keys", "/user/.keys"),
        ("/a/**/b", "/a.json/b"),
        ("/", "/.json"),
    ],
)
def test_a_deny_fits_a_format_nowhere_else(pattern: str, path: str) -> None:
    assert not denies(pattern, path)


def test_the_spellings_of_a_deny_share_their_beginning() -> None:
    """Compiling each from its beginning would double what a start costs."""
    assert path_glob("/repos/*/*/hooks/**").deny_regex().count("repos") == 1
    assert path_glob("/**/hooks").deny_regex().count("hooks") == 4
