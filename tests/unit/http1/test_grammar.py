"""The patterns take what they should, and finish promptly on the worst that fits into a head."""

from __future__ import annotations

import re

import pytest

from egress.http1 import fields, grammar, heads, message_readers

SIZE = 64 * 1024
WORST = {
    "one long token": "a" * SIZE,
    "blanks": " " * SIZE,
    "tabs": "\t" * SIZE,
    "blanks in a value": "a:" + " " * SIZE,
    "value and blanks by turns": "a:" + "a \t" * (SIZE // 3),
    "name and blanks": "a" * (SIZE // 2) + " " * (SIZE // 2),
    "carriage returns": "\r" * SIZE,
    "line ends": "\r\n" * (SIZE // 2),
    "short lines without a colon": "a\r\n" * (SIZE // 3),
    "short fields": "a: b\r\n" * (SIZE // 6) + "!",
    "blank lines": " \r\n" * (SIZE // 3),
    "colons": ":" * SIZE,
    "a version that never comes": "GET /" + "a" * SIZE + " HTTP/1.",
    "dots": "http://" + "a." * (SIZE // 2),
    "brackets": "[" * SIZE,
    "a bracket that never closes": "[" + ":" * SIZE,
    "digits": "1" * SIZE,
    "semicolons": "1" + ";" * SIZE,
    "a status line that never ends": "HTTP/1.1 200 " + "a " * (SIZE // 2),
}
PATTERNS: dict[str, re.Pattern[str]] = {
    f"{module.__name__.rpartition('.')[2]}.{name}": pattern
    for module in (grammar, fields, heads)
    for name, pattern in vars(module).items()
    if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str)
}


# Looked for anywhere in a text; all the others are tried at one place.
SEARCHED = {"grammar.FIELD_LINE", "fields.FIELD_LINE", "fields._FOLDED_LINE", "fields._BLANK_BEFORE_COLON"}


@pytest.mark.parametrize("worst", WORST)
def test_no_text_pattern_backtracks(worst: str) -> None:
    """Quadratic work on 64 KiB would run into the timeout of the test."""
    for text in (WORST[worst], WORST[worst] + "\r\n", WORST[worst] + "\x00"):
        for name, pattern in PATTERNS.items():
            pattern.match(text)
            pattern.fullmatch(text)
            if name in SEARCHED:
                pattern.findall(text)


def test_every_pattern_that_is_searched_for_is_known() -> None:
    """A pattern that may start anywhere is linear only when it is anchored to lines."""
    anchored = {name for name, pattern in PATTERNS.items() if pattern.flags & re.MULTILINE}
    assert anchored == SEARCHED


@pytest.mark.parametrize("worst", WORST)
def test_no_byte_pattern_backtracks(worst: str) -> None:
    data = WORST[worst].encode()
    grammar.STRAY_BYTE.search(data)
    for pattern in (*message_readers._lines(SIZE), *message_readers._lines(0)):
        pattern.match(data)
        pattern.fullmatch(data)


@pytest.mark.parametrize("byte", [chr(code) for code in range(256)], ids=lambda byte: f"{ord(byte):02x}")
def test_every_byte_is_allowed_exactly_where_the_rfc_allows_it(byte: str) -> None:
    is_tchar = (byte.isascii() and byte.isalnum()) or byte in "!#$%&'*+-.^_`|~"
    assert bool(grammar.TOKEN.fullmatch(byte)) is is_tchar
    in_value = byte == "\t" or " " <= byte <= "~" or byte >= "\x80"
    assert bool(grammar.FIELD_LINE.fullmatch(f"a:x{byte}x\r\n")) is in_value
    assert bool(grammar.CANONICAL_BLOCK.fullmatch(f"a: x{byte}x\r\n\r\n")) is in_value
    stray = (ord(byte) < 0x20 and byte != "\t") or byte == "\x7f"
    assert bool(grammar.STRAY_BYTE.search(f"x{byte}x".encode("latin-1"))) is stray


def test_a_written_block_has_one_spelling() -> None:
    assert grammar.CANONICAL_BLOCK.fullmatch("a: b\r\nc: \r\nd: e f\r\n\r\n")
    for other in ("A: b", "a:b", "a:  b", "a: b ", "a : b", "a: \t", ": b", "a"):
        assert grammar.CANONICAL_BLOCK.fullmatch(f"{other}\r\n\r\n") is None, other
