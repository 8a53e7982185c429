"""Query, headers and content type: an allow wants no doubt, a deny takes any."""

from __future__ import annotations

import pytest

from egress.request_name_folding import MAX_PARTS
from egress.rules.decide.globs import ValueGlob
from egress.rules.decide.predicates import (
    NamedGlob,
    Predicates,
    allow_fits,
    deny_fits,
    parameter_names,
    parse_query,
)

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


@pytest.mark.parametrize("mark", "&;")
def test_very_many_parameters_are_doubtful(mark: str) -> None:
    """A server may leave out those behind the first thousand, and each is compared for each rule."""
    assert parse_query(mark.join(["a=1"] * MAX_PARTS)) is not None
    assert parse_query(mark.join(["a=1"] * (MAX_PARTS + 1))) is None


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
        (("image/png", "png"), False, True),
        (("text/X\t",), True, True),
    ],
)
def test_content_types(values: tuple[str, ...], allows: bool, denies: bool) -> None:
    headers = tuple(("content-type", value) for value in values)
    assert (allow_fits(JSON, "", headers), deny_fits(JSON, "", headers)) == (allows, denies)


def test_a_media_type_is_two_tokens() -> None:
    """What is none can be read as any, so every deny fits it."""
    token = set("abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+.^_`|~-")
    for character in map(chr, range(0x100)):
        is_media_type = character.lower() in token
        for value in (f"a{character}b/c", f"a/b{character}c"):
            if character != ";":
                assert deny_fits(JSON, "", (("content-type", value),)) is not is_media_type, repr(value)


def test_other_headers_are_no_content_type() -> None:
    headers = (("accept", "image/png"), ("content-type", "application/json"))
    assert allow_fits(JSON, "", headers)
    assert not deny_fits(JSON, "", (("accept", "application/json"), ("content-type", "image/png")))


def test_a_type_in_a_field_that_some_servers_take_for_the_real_one_is_for_denies_alone() -> None:
    sent = (("content_type", "application/json"),)
    assert deny_fits(JSON, "", sent)
    assert not allow_fits(JSON, "", sent)
    assert allow_fits(JSON, "", (*sent, ("content-type", "application/json")))
    assert not allow_fits(JSON, "", (("content_type", "image/png"), ("content-type", "application/json")))


def test_a_broken_query_matters_only_where_a_rule_looks_at_the_query() -> None:
    assert allow_fits(Predicates(headers=(NamedGlob("x", None),)), "?%zz", ())


def test_a_semicolon_is_read_in_both_ways() -> None:
    """As a character of the value, and as the end of it; an allow must fit on both readings."""
    exact = Predicates(query=(NamedGlob("a", ValueGlob("x;y")),))
    assert deny_fits(exact, "?a=x;y", ())
    assert allow_fits(exact, "?a=x;y", ())
    for query in ("?admin=1&z;admin=2", "?admin=1&z;q=1;admin=2", "?admin=1;admin=2", "?z;admin=2&admin=1"):
        assert not allow_fits(ADMIN, query, ())
    assert allow_fits(ADMIN, "?admin=1&z;q=1;admin=1", ())


def test_a_deny_looks_at_each_element_of_a_list() -> None:
    wanted = Predicates(headers=(NamedGlob("x-a", ValueGlob("X")),))
    for value in ("X", "a, X", "X ,a", "a,\tX\t,b"):
        assert deny_fits(wanted, "", (("x-a", value),))
    assert not deny_fits(wanted, "", (("x-a", "a, XX"),))


def test_a_header_name_is_one_in_every_spelling_that_servers_fold() -> None:
    for name in ("x-a-b", "x_a_b", "X-A-B"):
        wanted = Predicates(headers=(NamedGlob(name, ValueGlob("1")),))
        for sent in ("x-a-b", "x_a_b", "X_A-b"):
            assert deny_fits(wanted, "", ((sent, "1"),))
        assert not deny_fits(wanted, "", (("x-ab", "1"),))


@pytest.mark.parametrize("spelling", ["ADMIN", "admin[]", "%20admin", "admin%00x", "[admin]", "%41dmin"])
def test_a_parameter_is_one_in_every_spelling_that_servers_fold(spelling: str) -> None:
    """A deny is met by each of them; an allow wants none that says something else."""
    assert deny_fits(ADMIN, f"?{spelling}=1", ())
    assert not deny_fits(ADMIN, f"?{spelling}=2", ())
    assert not allow_fits(ADMIN, f"?{spelling}=1", ())
    assert not allow_fits(ADMIN, f"?admin=1&{spelling}=2", ())
    assert allow_fits(ADMIN, f"?admin=1&{spelling}=1", ())


def test_another_name_of_the_same_length_is_another_name() -> None:
    wanted = Predicates(headers=(NamedGlob("x-a", ValueGlob("1")),))
    assert not deny_fits(wanted, "", (("x-b", "1"),))
    assert not deny_fits(ADMIN, "?other=1", ())
    assert allow_fits(wanted, "", (("x-a", "1"), ("x-b", "2")))
    assert allow_fits(ADMIN, "?admin=1&other=2", ())


def test_headers_for_allow_and_deny() -> None:
    wanted = Predicates(headers=(NamedGlob("x-a", ValueGlob("v*")),))
    both = (("x-a", "v1"), ("x-a", "w"))
    assert not allow_fits(wanted, "", both)
    assert deny_fits(wanted, "", both)
    assert allow_fits(wanted, "", both[:1])
    assert not deny_fits(wanted, "", both[1:])
    assert deny_fits(wanted, "", (("X-A", "V1"),))


def test_a_deny_looks_at_the_elements_of_its_own_header_and_at_each_once() -> None:
    """A header of 60 KB has as many elements; each of them was compared with each deny."""
    seen: list[str] = []

    class Glob(ValueGlob):
        def matches(self, value: str, *, ignore_case: bool = False) -> bool:
            seen.append(value)
            return super().matches(value, ignore_case=ignore_case)

    wanted = Predicates(headers=(NamedGlob("x-a", Glob("evil")),))
    assert not deny_fits(wanted, "", (("x-b", "evil,"), ("x-a", "1,2,1,2"), ("x_a", "3")))
    assert sorted(seen) == ["1", "1,2,1,2", "2", "3"]
    assert deny_fits(wanted, "", (("x_a", "1, Evil"),))
