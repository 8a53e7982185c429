"""Host names and patterns, where docs/reference/language.md leaves the small print to the code."""

from __future__ import annotations

import pytest

from egress.rules.language.hosts import (
    HostError,
    HostPattern,
    candidate_patterns,
    canonical_host,
    canonical_wire_host,
    is_address,
    is_canonical,
    parse_host_pattern,
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the host name is empty"),
        ("a" * 64, "a label of the host name is longer than 63 characters"),
        ("a." * 128, "the host name is longer than 253 characters"),
        ("a..b", "the host name has an empty label"),
        ("a.1", "the last part of the host name is a number"),
        ("[::1]", "this is an address, not a host name"),
        ("fd00::1", "this is an address, not a host name"),
        ("a:1", "a host name cannot contain a port"),
        ("a/b", "this is a URL or part of one, not a host name"),
        ("a*b", "an asterisk can only replace whole labels at the beginning"),
        ("a b", "the host name contains a character that is not allowed"),
        ("xn--a", "an xn-- label of the host name is not valid punycode"),
        ("ü..b", "the host name has no valid international spelling"),
        ("\ud800", "the host name has no valid international spelling"),
    ],
)
def test_says_why_a_name_is_none(text: str, reason: str) -> None:
    with pytest.raises(HostError) as caught:
        canonical_host(text)
    assert caught.value.message == reason


def test_the_longest_name_and_label_pass() -> None:
    label, name = "a" * 63, ".".join(["a" * 49] * 5) + ".abc"
    assert len(name) == 253
    for longest in (label, f"{label}.{label}", name, f"{name}."):
        assert canonical_wire_host(longest) == longest.removesuffix(".")
    for too_long in (f"{label}a", f"a.{label}a", f"{name}d", f"{name}d."):
        with pytest.raises(HostError):
            canonical_wire_host(too_long)


@pytest.mark.parametrize(
    "name", ["_a.b", "a._b_.c", "a-b.c-d", "-a-.b", "0.a0", "a.1a", "a.0a", "a.0xg", "a.x0"]
)
def test_takes_every_character_of_a_name_in_every_label(name: str) -> None:
    assert canonical_wire_host(name) == name


@pytest.mark.parametrize("last", ["1", "12", "0x", "0x1", "0xf", "0x1f", "0X1F", "01"])
def test_refuses_a_number_as_the_last_label(last: str) -> None:
    for name in (last, f"a.{last}", f"a.{last}."):
        with pytest.raises(HostError):
            canonical_wire_host(name)


def test_the_wire_folds_no_letter_beyond_ascii() -> None:
    """The sign for kelvin becomes a plain k in lower case: a name nobody has checked."""
    for name in ("\u212aelvin.example", "\u0130.example"):
        with pytest.raises(HostError):
            canonical_wire_host(name)


def test_only_labels_that_claim_to_be_international_are_checked_as_such() -> None:
    assert canonical_wire_host("_a.b-.xn--bcher-kva.example") == "_a.b-.xn--bcher-kva.example"
    assert canonical_wire_host("axn--a.example") == "axn--a.example"


def test_the_wire_takes_no_international_spelling() -> None:
    assert canonical_host("bücher.example") == "xn--bcher-kva.example"
    with pytest.raises(HostError):
        canonical_wire_host("bücher.example")


@pytest.mark.parametrize("text", ["bücher.example.", "bücher。example。", "ｅxample.com", "EXÄMPLE.com"])
def test_people_may_write_one_trailing_dot_and_any_width(text: str) -> None:
    assert is_canonical(canonical_host(text))


def test_two_trailing_dots_are_one_too_many_in_any_script() -> None:
    for text in ("a.example..", "ä.example..", "ä.example。。"):
        with pytest.raises(HostError):
            canonical_host(text)


@pytest.mark.parametrize("text", ["10.0.0.1", "::1", "fd00::1", "fd00::a", "2606:4700::", "255.255.255.255"])
def test_an_address_is_known_in_its_one_spelling(text: str) -> None:
    assert is_address(text)
    assert is_canonical(text)


@pytest.mark.parametrize(
    "text", ["10.0.0.01", "10.1", "::0", "FD00::1", "fe80::1%1", "[::1]", "", "1", "٣.0.0.1", "a1", "²"]
)
def test_any_other_spelling_is_no_address(text: str) -> None:
    assert not is_address(text)


def test_a_pattern_shows_itself_as_it_is_written() -> None:
    for text in ("a.example", "*.example", "**.a.example"):
        assert str(parse_host_pattern(text)) == text


def test_the_candidates_come_in_the_order_of_choice() -> None:
    assert [str(found) for found in candidate_patterns("a.b.c")] == ["a.b.c", "*.b.c", "**.b.c", "**.c"]
    assert [str(found) for found in candidate_patterns("a")] == ["a"]


@pytest.mark.parametrize(
    ("wide", "narrow", "does"),
    [
        ("a.x", "a.x", True),
        ("*.x", "a.x", True),
        ("*.x", "a.b.x", False),
        ("**.x", "a.b.x", True),
        ("**.x", "x", False),
        ("*.x", "*.x", True),
        ("*.x", "**.x", False),
        ("**.x", "*.x", True),
        ("**.x", "**.b.x", True),
        ("**.b.x", "**.x", False),
        ("**.x", "**.bx", False),
        ("a.x", "*.x", False),
        ("x", "*.x", False),
        ("x", "**.x", False),
        ("x", "**.a.x", False),
    ],
)
def test_covers_what_is_equal_or_narrower(wide: str, narrow: str, does: bool) -> None:
    assert parse_host_pattern(wide).covers(parse_host_pattern(narrow)) is does


def test_a_suffix_counts_at_a_dot() -> None:
    assert HostPattern(2, "example.com").matches("a.example.com")
    assert not HostPattern(2, "example.com").matches("aexample.com")
    assert not HostPattern(1, "example.com").matches("a..example.com")


@pytest.mark.parametrize(
    "name", ["xn--a9999999999999999999998ka.example", "bücher.xn--a9999999999999999999998ka"]
)
def test_punycode_that_counts_beyond_every_number_stands_for_no_name(name: str) -> None:
    with pytest.raises(HostError):
        canonical_host(name)
