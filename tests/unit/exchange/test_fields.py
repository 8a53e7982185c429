"""No field that could be read in two ways gets past an exchange, whichever codec let it in."""

from __future__ import annotations

import pytest

from egress.errors import WireError
from egress.exchange.fields import Fields
from egress.http1.connection import HOP_BY_HOP
from egress.http1.fields import read_fields


@pytest.mark.parametrize(
    "name", ["", "Host", "SET-COOKIE", ":authority", "a b", "a\r\nb", "a\x00", "é", "a:", " a"]
)
def test_refuses_a_name_that_is_none(name: str) -> None:
    with pytest.raises(WireError):
        Fields(((name, "x"),))


@pytest.mark.parametrize(
    "value", ["a\r\nb: c", "a\nb", "a\rb", "a\x00b", "a\x1bb", "a\x7f", " a", "a ", "\ta", "\u0100", "\ud800"]
)
def test_refuses_a_value_that_could_end_its_line_or_is_not_of_the_wire(value: str) -> None:
    with pytest.raises(WireError):
        Fields((("x-a", value),))


def test_refuses_a_value_that_holds_a_whole_field_of_its_own() -> None:
    """Such a block reads well as a whole; only the number of lines gives it away."""
    with pytest.raises(WireError):
        Fields((("x-a", "1\r\nauthorization: own"),))


def test_takes_ordinary_fields() -> None:
    fields = (("x-a", ""), ("x-b", "caf\xe9 \t !"), ("x-b", "again"), ("x_c", "1"))
    assert Fields(fields).length is None
    assert Fields(()).length is None


def test_gives_the_stated_length() -> None:
    assert Fields((("content-length", "12"), ("x-a", "1"), ("x-a", "2"))).length == 12


@pytest.mark.parametrize(
    "text", ["", "+1", "-1", "0x1", "1,1", "1 1", "01", "1_0", "\xb2", "1.0", "9" * 19, "9" * 5000]
)
def test_refuses_a_length_that_is_no_plain_number(text: str) -> None:
    """Superscript two is a digit to Python and no number, and a very long one raises by itself."""
    with pytest.raises(WireError):
        Fields((("content-length", text),))


def test_refuses_a_second_length_even_the_same() -> None:
    with pytest.raises(WireError):
        Fields((("content-length", "1"), ("content-length", "1")))


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\x00", " a", "\u0100"])
def test_what_was_put_behind_fields_that_were_read_is_checked(value: str) -> None:
    """The good twin passes: it is the value that is refused, not the sum."""
    read, _ = read_fields("Host: a.example\r\n\r\n", 0, 9)
    assert Fields((*read, ("x-a", "1"))).values("x-a") == ["1"]
    with pytest.raises(WireError):
        Fields((*read, ("x-a", value)))


def test_of_fields_that_were_read_the_length_is_checked_all_the_same() -> None:
    for block in ("Content-Length: +1\r\n\r\n", "Content-Length: 1\r\nContent-Length: 1\r\n\r\n"):
        with pytest.raises(WireError):
            Fields(read_fields(block, 0, 9)[0])


# Questions ------------------------------------------------------------------------------------

HEAD = (("host", "a.example"), ("x-a", "1"), ("x-b", "proxy-x"), ("x-a", "2"))


def test_gives_all_values_of_a_name() -> None:
    fields = Fields(HEAD)
    assert (fields.values("x-a"), fields.values("host"), fields.values("x-c")) == (
        ["1", "2"],
        ["a.example"],
        [],
    )
    plain = Fields(HEAD[:2])
    assert (plain.values("x-a"), plain.values("x-c")) == (["1"], [])


def test_knows_names_and_how_they_begin() -> None:
    fields = Fields(HEAD)
    assert fields.has_any(frozenset({"x-b", "x-c"}))
    assert not fields.has_any(frozenset({"x-c", "1"}))
    assert fields.has_prefix("host")
    assert fields.has_prefix("x-")
    assert not fields.has_prefix("proxy-")
    assert not fields.has_prefix("-a")


@pytest.mark.parametrize("name", [*sorted(HOP_BY_HOP - {"connection"}), "proxy-x", "proxy-authorization"])
def test_fields_of_the_connection_stay_behind(name: str) -> None:
    assert Fields((*HEAD, (name, "x"))).travelling() == HEAD
    assert Fields(((name, "x"), *HEAD)).travelling() == HEAD


def test_what_connection_nominates_stays_behind() -> None:
    assert Fields((*HEAD, ("connection", "x-a"))).travelling() == (HEAD[0], HEAD[2])
    with pytest.raises(WireError):
        Fields((*HEAD, ("connection", "host"))).travelling()


def test_fields_that_all_travel_are_passed_on_as_they_are() -> None:
    assert Fields(HEAD).travelling() is HEAD


def test_all_that_is_in_a_field_is_in_the_text() -> None:
    assert Fields(HEAD).text == "host: a.example\r\nx-a: 1\r\nx-b: proxy-x\r\nx-a: 2\r\n\r\n"


def test_what_travels_is_told_for_every_set_of_names_anew() -> None:
    """What was found once is kept with the fields, and must not answer another question."""
    read, _ = read_fields("Host: a.example\r\nConnection: x-one\r\nX-One: 1\r\nX-Two: 2\r\n\r\n", 0, 9)
    for _ in range(2):
        assert Fields(read).travelling() == (("host", "a.example"), ("x-two", "2"))
        assert Fields(read).travelling(HOP_BY_HOP | {"host"}) == (("x-two", "2"),)
        assert Fields(read).text == "host: a.example\r\nconnection: x-one\r\nx-one: 1\r\nx-two: 2\r\n\r\n"
