"""egress/credentials/query.py: one parameter, one value."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest

from egress.credentials.query import write_query
from egress.credentials.result import CredentialRefusal, HeadEdit
from egress.types import InjectQuery

NEED = InjectQuery("maps", "key")


def write(target: str, need: InjectQuery = NEED, value: bytes = b"tok3n") -> HeadEdit:
    edit = write_query(target, (("accept", "*/*"),), need, value)
    assert isinstance(edit, HeadEdit), edit
    assert edit.headers == (("accept", "*/*"),)
    return edit


@pytest.mark.parametrize(
    ("target", "after"),
    [
        ("/", "/?key=tok3n"),
        ("/a%2Fb/c", "/a%2Fb/c?key=tok3n"),
        ("/a?", "/a?key=tok3n"),
        ("/a?b=1", "/a?b=1&key=tok3n"),
        ("/a?z=%7e+%20&&b;c=&d&=e", "/a?z=%7e+%20&&b;c=&d&=e&key=tok3n"),
        ("/a?b=?c?", "/a?b=?c?&key=tok3n"),
        ("/a?keys=1&key.x=3&xkey=4", "/a?keys=1&key.x=3&xkey=4&key=tok3n"),
    ],
)
def test_appends_the_parameter_and_keeps_the_rest_as_sent(target: str, after: str) -> None:
    edit = write(target)
    assert edit.target == after
    assert not edit.occupied


@pytest.mark.parametrize(
    ("target", "after"),
    [
        ("/?key=mine", "/?key=tok3n"),
        ("/?key", "/?key=tok3n"),
        ("/?key=", "/?key=tok3n"),
        ("/?key=a&b=1&key=c", "/?b=1&key=tok3n"),
        ("/?%6bey=mine&b=1", "/?b=1&key=tok3n"),
        ("/?%6B%65%79=mine", "/?key=tok3n"),
        ("/?key=a=b", "/?key=tok3n"),
        ("/a?KEY=1&b=2&%20key=3&key[]=4&key%00x=5", "/a?b=2&key=tok3n"),
    ],
)
def test_strips_every_occurrence_and_spelling(target: str, after: str) -> None:
    edit = write(target)
    assert edit.target == after
    assert edit.occupied


@pytest.mark.parametrize("spelling", ["api+key", "api%20key", "%61pi+ke%79"])
def test_a_plus_in_a_name_is_a_space(spelling: str) -> None:
    assert write(f"/?{spelling}=mine", InjectQuery("maps", "api key")).target == "/?api%20key=tok3n"


@pytest.mark.parametrize("spelling", ["schl%C3%BCssel", "schl\xc3\xbcssel", "%73chl%c3\xbcssel"])
def test_a_name_beyond_ascii_is_utf8(spelling: str) -> None:
    """The target is latin-1 text, one character a byte."""
    assert write(f"/?{spelling}=mine", InjectQuery("maps", "schlüssel")).target == "/?schl%C3%BCssel=tok3n"


@pytest.mark.parametrize("value", [b"a&b=c#d?e/f", b"a b+c", b"100%", b"\xc3\xa9\xff\x80", b"a;b", b"~-._"])
def test_encodes_any_value_so_that_it_reads_back(value: bytes) -> None:
    target = write("/a?b=1", value=value).target
    _, _, query = target.partition("?")
    assert parse_qsl(query, encoding="latin-1") == [("b", "1"), ("key", value.decode("latin-1"))]


@pytest.mark.parametrize("target", ["*", "", "http://a/", "/a#b", "/?a=1#key=2"])
def test_refuses_a_target_that_cannot_carry_a_query(target: str) -> None:
    """It would go out bare: `*` has no query, and what follows a `#` is not sent on."""
    refusal = write_query(target, (), NEED, b"hunter2")
    assert isinstance(refusal, CredentialRefusal)
    assert (refusal.code, refusal.secret, str(refusal.slot)) == ("request.malformed", "maps", "query:key")


@pytest.mark.parametrize("query", ["a=1;key=mine", "a;key", "a=1;%6bey=mine;b", "key;a=1", ";key=mine"])
def test_refuses_a_second_value_behind_a_semicolon(query: str) -> None:
    refusal = write_query(f"/?{query}", (), NEED, b"hunter2")
    assert isinstance(refusal, CredentialRefusal)
    assert refusal.code == "request.malformed"


def test_a_semicolon_elsewhere_is_data() -> None:
    assert write("/?a=1;b=key&c=x%3Bkey=1").target == "/?a=1;b=key&c=x%3Bkey=1&key=tok3n"
