"""Text from anywhere becomes a JSON string that neither a terminal nor a line reader can be fooled with."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.audit.quote import CUT, MOST_NAME, name, optional, quoted

HOSTILE = ["\n", "\r\n", "\x1b[2J", '"', "\\", "\x00", "\x7f", "\x9b", "\u2028", "\u202e", "\ud800", "é"]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_but_plain_ascii_stands_in_it(text: str) -> None:
    assert quoted(text, 10).isascii()
    assert quoted(text, 10).isprintable()
    assert json.loads(quoted(text, 10)) == text


@given(st.text())
def test_what_is_short_enough_is_kept_whole(text: str) -> None:
    assert json.loads(quoted(text, len(text))) == text


def test_what_is_too_long_ends_with_a_mark() -> None:
    assert json.loads(quoted("abcdef", 3)) == "abc" + CUT
    assert len(json.loads(name("x" * 5000))) == MOST_NAME + 1


def test_nothing_is_null() -> None:
    assert (optional(None), optional(""), optional("x")) == ("null", "null", '"x"')
