"""The canonical path, where docs/reference/language.md leaves the small print to the code."""

from __future__ import annotations

import pytest

from egress.rules.decide.paths import (
    MAX_PATH_BYTES,
    PathError,
    canonical_path,
    canonical_query,
    loosened_path,
    split_target,
    to_wire_text,
)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "the path does not begin with a slash"),
        ("a", "the path does not begin with a slash"),
        ("/a b", "the path contains a control character, a space, # or \\"),
        ("/a\u0100", "the path contains a control character, a space, # or \\"),
        ("/a%5C", "the path contains an escaped control character, # or \\"),
        ("/a%", "the path has a broken % escape"),
        ("/a%\n1", "the path contains a control character, a space, # or \\"),
        ("/a%4", "the path has a broken % escape"),
        ("/a%g1", "the path has a broken % escape"),
        ("/%2541", "the path is escaped twice"),
        ("/%c1%81", "the path contains an overlong UTF-8 character"),
        ("/a/..", "the path has a . or .. segment"),
        ("/a%2Fb", "the path has an escaped slash, and no rule of this host has `encoded_slash: data`"),
        ("/a%20", "the path has a segment that begins or ends with a space"),
        ("/%20a/b", "the path has a segment that begins or ends with a space"),
        ("/" + "a" * MAX_PATH_BYTES, "the path is longer than 16 KiB"),
        ("/%" + "a" * MAX_PATH_BYTES, "the path is longer than 16 KiB"),
    ],
)
def test_says_why_a_path_is_refused(path: str, reason: str) -> None:
    with pytest.raises(PathError) as caught:
        canonical_path(path)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("path", "word"), [("/a//b", "empty segment"), ("//", "empty segment"), ("/a;b", "a ;"), ("/%3b", "a ;")]
)
def test_strict_refuses_what_only_path_rules_care_about(path: str, word: str) -> None:
    assert canonical_path(path)
    with pytest.raises(PathError, match=word):
        canonical_path(path, strict=True)


UNRESERVED = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
KEPT = UNRESERVED | set("!$&'()*+,=:@/;[]")
ENCODED = set('"<>^`{|}') | {chr(byte) for byte in range(0x80, 0x100)}
REFUSED = {chr(byte) for byte in (*range(0x21), 0x7F)} | set("#\\")


def spelling(path: str, *, encoded_slash: bool = True) -> str | None:
    """The canonical spelling, or None where there is none."""
    try:
        return canonical_path(path, encoded_slash=encoded_slash)
    except PathError:
        return None


def test_each_character_is_kept_or_encoded_or_refused() -> None:
    for character in map(chr, range(0x100)):
        if character in KEPT:
            assert spelling(f"/a{character}b") == f"/a{character}b"
        elif character in ENCODED:
            assert spelling(f"/a{character}b") == f"/a%{ord(character):02X}b"
        elif character in REFUSED:
            assert spelling(f"/a{character}b") is None, repr(character)


def test_each_escape_is_decoded_or_kept_or_refused() -> None:
    for byte in range(0x100):
        character = chr(byte)
        for escape in (f"%{byte:02X}", f"%{byte:02x}"):
            found = spelling(f"/a{escape}z")
            if character in UNRESERVED:
                assert found == f"/a{character}z"
            elif character in REFUSED - {" "}:
                assert found is None, escape
            else:
                assert found == f"/a%{byte:02X}z"


def test_what_looks_like_a_refused_escape_and_is_none_stays() -> None:
    for text in ("00", "1F", "7F", "23", "5C", "C080", "C1%BF", "E0%80%80", "F0%80%80", "F8%80", "25ff"):
        assert spelling(f"/{text}%3A") == f"/{text}%3A"
    for path in ("/a%E0%80z", "/a%E0%9F", "/a%F0%80z", "/a%F0%8F"):
        assert spelling(path) == path


@pytest.mark.parametrize(
    "path",
    ["/%20a", "/a%20", "/a%20/b", "/a%20./b", "/a%20..", "/a%20%2Fb", "/a%2F%20b", "/a%20;x", "/a%20.%3Bx"],
)
def test_refuses_a_space_at_the_edge_of_a_segment(path: str) -> None:
    assert spelling(path) is None


@pytest.mark.parametrize(
    "path",
    [
        "/a%20b",
        "/a%20.b",
        "/a%20%3Ab",
        "/a%20%2Bb",
        "/a%20%FFb",
        "/a2F%20b",
        "/a%202Fb",
        "/a%203Bb",
        "/%3A20",
    ],
)
def test_keeps_a_space_inside_a_segment(path: str) -> None:
    assert spelling(path) == path


@pytest.mark.parametrize("path", ["/%2Fa", "/a%2F%2Fb", "/a%2F/b", "/a%2F", "/a/%2F/b"])
def test_refuses_an_escaped_slash_that_makes_an_empty_segment(path: str) -> None:
    assert spelling(path) is None


@pytest.mark.parametrize("path", ["/a%2Fb", "/a2F%2Fb", "/2Fa%2Fb", "/%2Ba%2Fb", "/a%2Fb2F", "/a%2Fb/2F/c"])
def test_keeps_an_escaped_slash_with_something_on_either_side(path: str) -> None:
    assert spelling(path) == path


@pytest.mark.parametrize(
    "path", ["/.", "/..", "/./a", "/a/.", "/a/../b", "/a%2F../b", "/a%2F.%2Fb", "/..%2Fb", "/a/%2e%2E/b"]
)
def test_refuses_a_dot_segment_between_slashes_of_either_kind(path: str) -> None:
    assert spelling(path) is None


@pytest.mark.parametrize("path", ["/a2F../b%3A", "/a/..2Fb", "/a%2B../b", "/a/..%2Bb", "/a%FF.", "/.%FF"])
def test_keeps_dots_beside_what_is_no_slash(path: str) -> None:
    assert spelling(path) == path


@pytest.mark.parametrize("path", ["/%25af", "/%25AF", "/%2500", "/%252e"])
def test_refuses_what_is_escaped_twice(path: str) -> None:
    assert spelling(path) is None


@pytest.mark.parametrize("path", ["/%25", "/%25a", "/%25ag", "/%25g0"])
def test_keeps_an_escaped_percent_sign_before_what_is_no_escape(path: str) -> None:
    assert spelling(path) == path


def test_refuses_exactly_the_encodings_that_are_too_long() -> None:
    for first in range(0x80, 0x100):
        for second in range(0x100):
            path = f"/a%{first:02X}%{second:02X}%3A"
            too_long = 0x80 <= second < 0xC0 and (
                first in (0xC0, 0xC1)
                or (first == 0xE0 and second < 0xA0)
                or (first == 0xF0 and second < 0x90)
                or 0xF8 <= first <= 0xFD
            )
            if chr(second) not in UNRESERVED | REFUSED | {"/", "%"}:
                assert (spelling(path) is None) is too_long, path


def test_the_longest_path_and_query_pass() -> None:
    most = 16 * 1024
    assert canonical_path("/" + "a" * (most - 1))
    assert canonical_path("/%3A" + "a" * (most - 4))
    assert canonical_query("?" + "a" * (most - 1))
    for path in ("/" + "a" * most, "/%3A" + "a" * (most - 3)):
        with pytest.raises(PathError, match="16 KiB"):
            canonical_path(path)
    with pytest.raises(PathError, match="16 KiB"):
        canonical_query("?" + "a" * most)


def test_a_path_may_have_32_escaped_slashes() -> None:
    assert spelling("/a" + "%2Fa" * 32)
    assert spelling("/a" + "%2Fa" * 33) is None


def test_each_character_of_a_query_is_kept_or_encoded_or_refused() -> None:
    for character in map(chr, range(0x100)):
        if character in REFUSED - {"\\"}:
            with pytest.raises(PathError):
                canonical_query(f"?a{character}b")
        else:
            kept = character if character.isascii() else f"%{ord(character):02X}"
            assert canonical_query(f"?a{character}b") == f"?a{kept}b"


def test_keeps_dots_that_are_no_segment() -> None:
    for path in ("/.well-known/x", "/a.b", "/a..", "/..a", "/...", "/.a/..b", "/a./b"):
        assert canonical_path(path, strict=True) == path


def test_valid_utf_8_is_not_too_long() -> None:
    for text in ("é", "ß", "€", "字", "😀", "\u07ff", "\u0800", "\U00010000"):
        path = to_wire_text(f"/{text}")
        assert canonical_path(canonical_path(path)) == canonical_path(path)


def test_latin_1_bytes_are_encoded_one_by_one() -> None:
    assert canonical_path("/\xe9") == "/%E9"
    assert canonical_path("/%e9") == "/%E9"


def test_encoded_slash_stays_an_escape() -> None:
    assert canonical_path("/a%2fb", encoded_slash=True) == "/a%2Fb"


def test_loosened_decodes_the_reserved_and_nothing_else() -> None:
    reserved = "!$&'()+,:;=@[]"
    assert loosened_path("/" + "".join(f"%{ord(c):02X}" for c in reserved)) == "/" + reserved
    assert loosened_path("/%2A%2F%3F%25%22%C3%A9%20") == "/%2A%2F%3F%25%22%C3%A9%20"


def test_splits_at_the_first_question_mark() -> None:
    assert split_target("/a?b?c") == ("/a", "?b?c")
    assert split_target("/a") == ("/a", "")
    assert split_target("?") == ("", "?")


def test_a_query_keeps_its_spelling() -> None:
    assert canonical_query('?a=%2e%2E&b=/../;\\"<>') == '?a=%2e%2E&b=/../;\\"<>'
    assert canonical_query("?\xe9") == "?%E9"


@pytest.mark.parametrize("query", ["?a b", "?#", "?\x00", "?\x7f", "?\u0100", "?" + "a" * MAX_PATH_BYTES])
def test_refuses_a_query_that_servers_read_differently(query: str) -> None:
    with pytest.raises(PathError):
        canonical_query(query)


def test_what_people_write_travels_as_utf_8() -> None:
    assert to_wire_text("é") == "\xc3\xa9"
    assert to_wire_text("plain") == "plain"
    assert to_wire_text("\ud800") == "?"
