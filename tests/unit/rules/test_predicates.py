"""Query, headers and content type: an allow wants no doubt, a deny takes any."""

from __future__ import annotations

import pytest

from egress.rules.globs import ValueGlob
from egress.rules.predicates import NamedGlob, Predicates, allow_fits, deny_fits, parameter_names, parse_query

ADMIN = Predicates(query=(NamedGlob("admin", ValueGlob("1")),))


@pytest.mark.parametrize(
    ("query", "pairs"),
    [
        ("", ()),
        ("?", ()),
        ("?a", (("a", ""),)),
        ("?a=b=c&&d=", (("a", "b=c"), ("d", ""))),
        ("?a+b=%2B+%20", (("a b", "+  "),)),
        ("?%c3%a9=%C3%A9", (("\xc3\xa9", "\xc3\xa9"),)),
        ("?a=;b=c", (("a", ";b=c"),)),
        ("?%26=%3d", (("&", "="),)),
    ],
)
def test_takes_a_query_apart(query: str, pairs: tuple[tuple[str, str], ...]) -> None:
    assert parse_query(query) == pairs


@pytest.mark.parametrize("query", ["?%", "?a=%4", "?a=1&%zz", "?a=%u0041"])
def test_a_broken_escape_is_no_query_at_all(query: str) -> None:
    assert parse_query(query) is None
    assert not allow_fits(ADMIN, query, ())
    assert deny_fits(ADMIN, query, ())


def test_every_name_that_a_server_may_read_is_named() -> None:
    assert list(parameter_names("?A=1&%42=2;c%00d=3&%zz=4&=5")) == ["a", "b", "c", "%zz", ""]


def test_predicates_of_nothing_are_false_and_look_at_nothing() -> None:
    assert not Predicates()
    assert Predicates(websocket=True)
    assert not Predicates(websocket=True).looks_inside
    assert ADMIN.looks_inside


def test_all_of_several_parameters_must_fit() -> None:
    both = Predicates(query=(NamedGlob("a", ValueGlob("1")), NamedGlob("b", ValueGlob("2"))))
    for fits in (allow_fits, deny_fits):
        assert fits(both, "?a=1&b=2", ())
        assert not fits(both, "?a=1", ())
        assert not fits(both, "?a=1&b=3", ())


def test_a_deny_on_absence_cannot_be_met_by_another_spelling() -> None:
    absent = Predicates(query=(NamedGlob("token", None),))
    assert deny_fits(absent, "?Token=1", ())
    assert not deny_fits(absent, "?token=1", ())
    assert deny_fits(absent, "", ())


JSON = Predicates(content_types=("application/json", "text/*"))


@pytest.mark.parametrize(
    ("values", "allows", "denies"),
    [
        ((), False, False),
        (("application/json",), True, True),
        (("APPLICATION/JSON ; charset=x",), True, True),
        (("text/html", "application/json"), True, True),
        (("text/html", "image/png"), False, True),
        (("image/png",), False, False),
        (("text",), False, True),
        (("text/",), False, True),
        (("text/html, image/png",), False, True),
        (("image/png\x00",), False, True),
    ],
)
def test_content_types(values: tuple[str, ...], allows: bool, denies: bool) -> None:
    headers = tuple(("content-type", value) for value in values)
    assert (allow_fits(JSON, "", headers), deny_fits(JSON, "", headers)) == (allows, denies)


def test_headers_for_allow_and_deny() -> None:
    wanted = Predicates(headers=(NamedGlob("x-a", ValueGlob("v*")),))
    both = (("x-a", "v1"), ("x-a", "w"))
    assert not allow_fits(wanted, "", both)
    assert deny_fits(wanted, "", both)
    assert allow_fits(wanted, "", both[:1])
    assert not deny_fits(wanted, "", both[1:])
    assert deny_fits(wanted, "", (("X-A", "V1"),))
