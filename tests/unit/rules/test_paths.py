"""The canonical path, where docs/reference/language.md leaves the small print to the code."""

from __future__ import annotations

import pytest

from egress.rules.paths import MAX_PATH, PathError, canonical, canonical_query, loosened, on_the_wire, split


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "the path does not begin with a slash"),
        ("a", "the path does not begin with a slash"),
        ("/a b", "the path has a control character, space, # or \\ in it"),
        ("/a\u0100", "the path has a control character, space, # or \\ in it"),
        ("/a%5C", "the path has an escaped control character, # or \\ in it"),
        ("/a%", "the path has a broken % escape"),
        ("/a%\n1", "the path has a control character, space, # or \\ in it"),
        ("/a%4", "the path has a broken % escape"),
        ("/a%g1", "the path has a broken % escape"),
        ("/%2541", "the path is escaped twice"),
        ("/%c1%81", "the path has a character in it that is encoded too long"),
        ("/a/..", "the path has a . or .. segment"),
        ("/a%2Fb", "the path has an escaped slash, and no rule takes it as data"),
        ("/a%20", "the path has a segment that begins or ends with a space"),
        ("/%20a/b", "the path has a segment that begins or ends with a space"),
        ("/" + "a" * MAX_PATH, "the path is longer than 16 KiB"),
        ("/%" + "a" * MAX_PATH, "the path is longer than 16 KiB"),
    ],
)
def test_says_why_a_path_is_refused(path: str, reason: str) -> None:
    with pytest.raises(PathError) as caught:
        canonical(path)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("path", "word"), [("/a//b", "empty segment"), ("//", "empty segment"), ("/a;b", "a ;"), ("/%3b", "a ;")]
)
def test_strict_refuses_what_only_path_rules_care_about(path: str, word: str) -> None:
    assert canonical(path)
    with pytest.raises(PathError, match=word):
        canonical(path, strict=True)


def test_keeps_dots_that_are_no_segment() -> None:
    for path in ("/.well-known/x", "/a.b", "/a..", "/..a", "/...", "/.a/..b", "/a./b"):
        assert canonical(path, strict=True) == path


def test_valid_utf_8_is_not_too_long() -> None:
    for text in ("é", "ß", "€", "字", "😀", "\u07ff", "\u0800", "\U00010000"):
        path = on_the_wire(f"/{text}")
        assert canonical(canonical(path)) == canonical(path)


def test_latin_1_bytes_are_encoded_one_by_one() -> None:
    assert canonical("/\xe9") == "/%E9"
    assert canonical("/%e9") == "/%E9"


def test_encoded_slash_stays_an_escape() -> None:
    assert canonical("/a%2fb", encoded_slash=True) == "/a%2Fb"


def test_loosened_decodes_the_reserved_and_nothing_else() -> None:
    reserved = "!$&'()+,:;=@[]"
    assert loosened("/" + "".join(f"%{ord(c):02X}" for c in reserved)) == "/" + reserved
    assert loosened("/%2A%2F%3F%25%22%C3%A9%20") == "/%2A%2F%3F%25%22%C3%A9%20"


def test_splits_at_the_first_question_mark() -> None:
    assert split("/a?b?c") == ("/a", "?b?c")
    assert split("/a") == ("/a", "")
    assert split("?") == ("", "?")


def test_a_query_keeps_its_spelling() -> None:
    assert canonical_query('?a=%2e%2E&b=/../;\\"<>') == '?a=%2e%2E&b=/../;\\"<>'
    assert canonical_query("?\xe9") == "?%E9"


@pytest.mark.parametrize("query", ["?a b", "?#", "?\x00", "?\x7f", "?\u0100", "?" + "a" * MAX_PATH])
def test_refuses_a_query_that_servers_read_differently(query: str) -> None:
    with pytest.raises(PathError):
        canonical_query(query)


def test_what_people_write_travels_as_utf_8() -> None:
    assert on_the_wire("é") == "\xc3\xa9"
    assert on_the_wire("plain") == "plain"
    assert on_the_wire("\ud800") == "?"
