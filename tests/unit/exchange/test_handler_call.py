"""What a handler is shown of a request, and what it may write into it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.exchange.handler_call import (
    AllowByHandler,
    AnswerByHandler,
    changed_head,
    credential_fields,
    is_sound_answer,
    reason_of_denial,
    shown_head,
)
from egress.types import Head, InjectHeader, Slot

HEAD = Head(
    "GET",
    "https",
    "api.example.com",
    443,
    "/a?b=c",
    (("host", "api.example.com"), ("x-key", "k"), ("x-a", "1")),
)
HIDDEN = credential_fields(
    (InjectHeader("api", "x-key"),), (Slot("header", "x-strip"), Slot("query", "token"))
)


def test_the_slots_of_injections_are_hidden_beside_the_usual_fields() -> None:
    assert {"x-key", "x-strip", "authorization", "cookie"} <= HIDDEN
    assert "token" not in HIDDEN
    shown = shown_head(HEAD, HIDDEN)
    assert shown.headers == (("host", "api.example.com"), ("x-a", "1"))
    assert (shown.method, shown.host, shown.target) == ("GET", "api.example.com", "/a?b=c")


def test_a_field_that_is_hidden_stays_where_it_was_and_cannot_be_written() -> None:
    kept = changed_head(HEAD, AllowByHandler(set_headers=(("x-a", "2"),)), HIDDEN)
    assert kept is not None
    assert kept.headers == (("host", "api.example.com"), ("x-key", "k"), ("x-a", "2"))
    for name in ("x-key", "x-strip", "authorization", "proxy-x", "egress-denied", "sec-websocket-key", "te"):
        assert changed_head(HEAD, AllowByHandler(set_headers=((name, "1"),)), HIDDEN) is None
        assert changed_head(HEAD, AllowByHandler(removed=frozenset({name})), HIDDEN) is None


@given(st.text(), st.text(), st.text(max_size=20))
def test_a_changed_head_always_leads_to_the_same_host(target: str, name: str, value: str) -> None:
    found = changed_head(HEAD, AllowByHandler(target=target, set_headers=((name, value),)), HIDDEN)
    if found is not None:
        assert (found.scheme, found.host, found.port) == ("https", "api.example.com", 443)
        assert [text for field, text in found.headers if field == "host"] == ["api.example.com"]
        assert "\n" not in found.target + value
        assert "\r" not in found.target + value
        assert found.target.startswith("/") or found.target == "*"


@pytest.mark.parametrize(
    ("answer", "is_sound"),
    [
        (AnswerByHandler(200, (("content-type", "text/plain"),), b"x"), True),
        (AnswerByHandler(304, (), b""), True),
        (AnswerByHandler(304, (), b"x"), False),
        (AnswerByHandler(199, (), b""), False),
        (AnswerByHandler(200, (("Upper", "1"),), b""), False),
        (AnswerByHandler(200, (("x-a", "\x00"),), b""), False),
        (AnswerByHandler(200, (("", "1"),), b""), False),
    ],
)
def test_answers(answer: AnswerByHandler, *, is_sound: bool) -> None:
    assert is_sound_answer(answer) is is_sound


@given(st.text())
def test_a_reason_is_one_printable_line(text: str) -> None:
    reason = reason_of_denial(text)
    assert len(reason) <= 200
    assert reason.isprintable()
