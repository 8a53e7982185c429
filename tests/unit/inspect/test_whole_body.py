"""A body that is read as a whole, and a request that must have none."""

from __future__ import annotations

from egress.inspect.inspector import MORE, Facts, Unreadable
from egress.inspect.whole_body import NoBody, WholeBody

FOUND = Facts(("item",), {})
UNREADABLE = Unreadable("body.json", "a GET has a body")


def test_a_body_is_read_once_at_its_end_and_then_forgotten() -> None:
    read: list[bytes] = []

    def take(data: bytes) -> Facts:
        read.append(data)
        return FOUND

    body = WholeBody(take)
    for piece in (b"a", b"", b"bc"):
        assert body.feed(piece) is MORE
    assert not read
    assert body.end() is FOUND
    assert read == [b"abc"]
    assert not body._data


def test_a_body_that_cannot_be_read_is_unreadable() -> None:
    assert WholeBody(lambda _: UNREADABLE).end() is UNREADABLE


def test_a_request_without_a_body_has_its_facts_and_any_byte_is_too_much() -> None:
    body = NoBody(FOUND, UNREADABLE)
    assert body.feed(b"") is MORE
    assert body.end() is FOUND
    assert body.feed(b"x") is UNREADABLE
