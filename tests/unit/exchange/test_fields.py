"""No field that could be read in two ways gets past an exchange, whichever codec let it in."""

from __future__ import annotations

import pytest

from egress.errors import WireError
from egress.exchange.fields import check_fields


@pytest.mark.parametrize(
    "name", ["", "Host", "SET-COOKIE", ":authority", "a b", "a\r\nb", "a\x00", "é", "a:", " a"]
)
def test_refuses_a_name_that_is_none(name: str) -> None:
    with pytest.raises(WireError):
        check_fields(((name, "x"),))


@pytest.mark.parametrize(
    "value", ["a\r\nb: c", "a\nb", "a\rb", "a\x00b", "a\x1bb", "a\x7f", " a", "a ", "\ta", "\u0100", "\ud800"]
)
def test_refuses_a_value_that_could_end_its_line_or_is_not_of_the_wire(value: str) -> None:
    with pytest.raises(WireError):
        check_fields((("x-a", value),))


def test_refuses_a_value_that_holds_a_whole_field_of_its_own() -> None:
    """Such a block reads well as a whole; only the number of lines gives it away."""
    with pytest.raises(WireError):
        check_fields((("x-a", "1\r\nauthorization: own"),))


def test_takes_ordinary_fields() -> None:
    fields = (("x-a", ""), ("x-b", "caf\xe9 \t !"), ("x-b", "again"), ("x_c", "1"))
    assert check_fields(fields) is None
    assert check_fields(()) is None


def test_gives_the_stated_length() -> None:
    assert check_fields((("content-length", "12"),)) == 12


@pytest.mark.parametrize(
    "text", ["", "+1", "-1", "0x1", "1,1", "1 1", "01", "1_0", "\xb2", "1.0", "9" * 19, "9" * 5000]
)
def test_refuses_a_length_that_is_no_plain_number(text: str) -> None:
    """Superscript two is a digit to Python and no number, and a very long one raises by itself."""
    with pytest.raises(WireError):
        check_fields((("content-length", text),))


def test_refuses_a_second_length_even_the_same() -> None:
    with pytest.raises(WireError):
        check_fields((("content-length", "1"), ("content-length", "1")))
