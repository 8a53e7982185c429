"""The grammar of `host:port`; the attack tests hold the long list of what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.proxy.ingress.destination_parser import excerpt, read_authority
from egress.rules.language.hosts import is_canonical


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("api.example.com:443", ("api.example.com", 443)),
        ("API.example.COM.:443", ("api.example.com", 443)),
        ("192.0.2.7:65535", ("192.0.2.7", 65535)),
        ("[2001:db8::7]:1", ("2001:db8::7", 1)),
        ("xn--bcher-kva.example:443", ("xn--bcher-kva.example", 443)),
        ("a_b-c.example:443", ("a_b-c.example", 443)),
    ],
)
def test_reads_one_pair(text: str, expected: tuple[str, int]) -> None:
    assert read_authority(text) == expected


def test_takes_the_default_only_where_no_port_stands() -> None:
    assert read_authority("api.example.com", 80) == ("api.example.com", 80)
    assert read_authority("[2001:db8::7]", 80) == ("2001:db8::7", 80)
    assert read_authority("api.example.com:8080", 80) == ("api.example.com", 8080)
    assert read_authority("api.example.com:", 80) is None
    assert read_authority("api.example.com:0", 80) is None


@pytest.mark.parametrize(
    "text",
    [
        "", ":", ":443", "api.example.com", "api.example.com:", "a:0", "a:01", "a:65536", "a:123456",
        "a:4 3", "a: 443", "a:443 ", "a:443\n", "a:٣", "a:\u0664", "[", "[]", "[]:443", "[a]:443",
        "[1.2.3.4]:443",
        "[::1", "[::1]443", "[::1]x:443", "[::01]:443", "[::A]:443", "[fe80::1%1]:443", "::1:443",
        "1.2.3.4.:443", "1.2.3:443", "a@b:443", "a/b:443", "a..b:443", "*.a:443",
        "a\x00:443", "a%41:443",
    ],
)  # fmt: skip
def test_refuses_what_is_no_pair(text: str) -> None:
    assert read_authority(text) is None


@given(st.text(alphabet="abAB.:[]0123456789-_%@*/\x00é", max_size=24), st.sampled_from([0, 80]))
def test_never_raises_and_returns_only_canonical_pairs(text: str, default: int) -> None:
    found = read_authority(text, default)
    if found is not None:
        assert is_canonical(found[0])
        assert 0 < found[1] < 65536
        shown = f"[{found[0]}]" if ":" in found[0] else found[0]
        assert read_authority(f"{shown}:{found[1]}") == found


@given(st.text(max_size=400))
def test_an_excerpt_is_short_and_plain(text: str) -> None:
    shown = excerpt(text)
    assert shown.isascii()
    assert len(shown) <= 123
    assert all(" " <= letter <= "~" for letter in shown)


def test_an_excerpt_shows_what_can_be_shown() -> None:
    assert excerpt("api.example.com:x") == "api.example.com:x"
    assert excerpt("a\r\n\x1b[2Jb\xff") == "a\\x0d\\x0a\\x1b[2Jb\\xff"
    assert excerpt("a" * 200) == "a" * 120 + "..."
