"""A request that somebody asks about is one that a client can send."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.errors import UsageError
from egress.rules.compile.asked_request import asked_head


def test_a_request_is_read_as_from_the_wire() -> None:
    head = asked_head("GET", "api.example.com/ü?q=1", [("X-Team ", " ä ")])
    assert (head.scheme, head.host, head.port) == ("https", "api.example.com", 443)
    assert head.target == "/ü?q=1".encode().decode("latin-1")
    assert head.headers == (("x-team", "ä".encode().decode("latin-1")),)


@pytest.mark.parametrize("name", ["Host", " HOST ", "a b", "a:b", "", "a\n"])
def test_a_header_that_no_client_sends_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        asked_head("GET", "https://api.example.com", [(name, "x")])


@given(st.text(), st.text(), st.text())
def test_whatever_is_asked_is_one_request_or_none(url: str, name: str, value: str) -> None:
    try:
        head = asked_head("GET", url, [(name, value)])
    except UsageError:
        return
    for text in (head.host, *(part for pair in head.headers for part in pair)):
        assert not set(text) & set("\r\n\0")
