"""No field that could be read in two ways gets past an exchange, whichever codec let it in."""

from __future__ import annotations

import pytest

from egress.errors import WireError
from egress.http1.fields import HOP_BY_HOP_FIELDS, CheckedFields, read_fields


@pytest.mark.parametrize(
    "name", ["", "Host", "SET-COOKIE", ":authority", "a b", "a\r\nb", "a\x00", "é", "a:", " a"]
)
def test_refuses_a_name_that_is_none(name: str) -> None:
    with pytest.raises(WireError):
        CheckedFields(((name, "x"),))


@pytest.mark.parametrize(
    "value", ["a\r\nb: c", "a\nb", "a\rb", "a\x00b", "a\x1bb", "a\x7f", " a", "a ", "\ta", "\u0100", "\ud800"]
)
def test_refuses_a_value_that_could_end_its_line_or_is_not_of_the_wire(value: str) -> None:
    with pytest.raises(WireError):
        CheckedFields((("x-a", value),))


def test_refuses_a_value_that_holds_a_whole_field_of_its_own() -> None:
    """Such a block reads well as a whole; only the number of lines gives it away."""
    with pytest.raises(WireError):
        CheckedFields((("x-a", "1\r\nauthorization: own"),))


def test_takes_ordinary_fields() -> None:
    fields = (("x-a", ""), ("x-b", "caf\xe9 \t !"), ("x-b", "again"), ("x_c", "1"))
    assert CheckedFields(fields).length is None
    assert CheckedFields(()).length is None


def test_gives_the_stated_length() -> None:
    assert CheckedFields((("content-length", "12"), ("x-a", "1"), ("x-a", "2"))).length == 12


@pytest.mark.parametrize(
    "text", ["", "+1", "-1", "0x1", "1,1", "1 1", "01", "1_0", "\xb2", "1.0", "9" * 19, "9" * 5000]
)
def test_refuses_a_length_that_is_no_plain_number(text: str) -> None:
    """Superscript two is a digit to Python and no number, and a very long one raises by itself."""
    with pytest.raises(WireError):
        CheckedFields((("content-length", text),))


def test_refuses_a_second_length_even_the_same() -> None:
    with pytest.raises(WireError):
        CheckedFields((("content-length", "1"), ("content-length", "1")))


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\x00", " a", "\u0100"])
def test_what_was_put_behind_fields_that_were_read_is_checked(value: str) -> None:
    """The good twin passes: it is the value that is refused, not the sum."""
    read, _ = read_fields("Host: a.example\r\n\r\n", 0, 9)
    assert CheckedFields((*read, ("x-a", "1"))).values("x-a") == ["1"]
    with pytest.raises(WireError):
        CheckedFields((*read, ("x-a", value)))


def test_of_fields_that_were_read_the_length_is_checked_all_the_same() -> None:
    for block in ("Content-Length: +1\r\n\r\n", "Content-Length: 1\r\nContent-Length: 1\r\n\r\n"):
        with pytest.raises(WireError):
            CheckedFields(read_fields(block, 0, 9)[0])


# Questions ------------------------------------------------------------------------------------

HEAD = (("host", "a.example"), ("x-a", "1"), ("x-b", "proxy-x"), ("x-a", "2"))


def test_gives_all_values_of_a_name() -> None:
    fields = CheckedFields(HEAD)
    assert (fields.values("x-a"), fields.values("host"), fields.values("x-c")) == (
        ["1", "2"],
        ["a.example"],
        [],
    )
    plain = CheckedFields(HEAD[:2])
    assert (plain.values("x-a"), plain.values("x-c")) == (["1"], [])


def test_knows_names_and_how_they_begin() -> None:
    fields = CheckedFields(HEAD)
    assert fields.has_any(frozenset({"x-b", "x-c"}))
    assert not fields.has_any(frozenset({"x-c", "1"}))
    assert fields.has_prefix("host")
    assert fields.has_prefix("x-")
    assert not fields.has_prefix("proxy-")
    assert not fields.has_prefix("-a")


@pytest.mark.parametrize(
    "name", [*sorted(HOP_BY_HOP_FIELDS - {"connection"}), "proxy-x", "proxy-authorization"]
)
def test_fields_of_the_connection_stay_behind(name: str) -> None:
    assert CheckedFields((*HEAD, (name, "x"))).end_to_end() == HEAD
    assert CheckedFields(((name, "x"), *HEAD)).end_to_end() == HEAD


def test_what_connection_nominates_stays_behind() -> None:
    assert CheckedFields((*HEAD, ("connection", "x-a"))).end_to_end() == (HEAD[0], HEAD[2])
    with pytest.raises(WireError):
        CheckedFields((*HEAD, ("connection", "host"))).end_to_end()


def test_fields_that_all_travel_are_passed_on_as_they_are() -> None:
    assert CheckedFields(HEAD).end_to_end() is HEAD


def test_all_that_is_in_a_field_is_in_the_text() -> None:
    assert CheckedFields(HEAD).text == "host: a.example\r\nx-a: 1\r\nx-b: proxy-x\r\nx-a: 2\r\n\r\n"


def test_what_travels_is_told_for_every_set_of_names_anew() -> None:
    """What was found once is kept with the fields, and must not answer another question."""
    read, _ = read_fields("Host: a.example\r\nConnection: x-one\r\nX-One: 1\r\nX-Two: 2\r\n\r\n", 0, 9)
    for _ in range(2):
        assert CheckedFields(read).end_to_end() == (("host", "a.example"), ("x-two", "2"))
        assert CheckedFields(read).end_to_end(HOP_BY_HOP_FIELDS | {"host"}) == (("x-two", "2"),)
        assert (
            CheckedFields(read).text == "host: a.example\r\nconnection: x-one\r\nx-one: 1\r\nx-two: 2\r\n\r\n"
        )
