"""Events are values: equal by content, and fixed."""

from __future__ import annotations

import dataclasses

import pytest

from egress.http1 import CHUNKED, NO_BODY, UNTIL_CLOSE, Body, Data, End, Framing, RequestHead


def test_a_counted_framing_carries_its_length() -> None:
    assert Framing.sized(5) == Framing(Body.LENGTH, 5)


def test_what_a_head_does_not_say_is_the_plain_case() -> None:
    assert Framing(Body.NONE).length == 0
    assert RequestHead("GET", "/", "origin", ()) == RequestHead(
        "GET", "/", "origin", (), NO_BODY, "", "", "1.1", keep_alive=True, expect_continue=False, upgrade=()
    )


def test_no_body_is_not_a_body_of_length_zero() -> None:
    """POST with Content-Length: 0 must go on as such; GET without it as well."""
    assert Framing.sized(0) != NO_BODY


@pytest.mark.parametrize(
    ("framing", "is_empty"),
    [
        (NO_BODY, True),
        (Framing.sized(0), True),
        (Framing.sized(1), False),
        (CHUNKED, False),
        (UNTIL_CLOSE, False),
        (Framing(Body.NONE, 5), True),
        (Framing(Body.CHUNKED, 5), False),
    ],
)
def test_a_body_is_empty_only_where_no_byte_can_follow(framing: Framing, is_empty: bool) -> None:
    assert framing.is_empty is is_empty


def test_a_head_cannot_be_changed_behind_the_decision_on_it() -> None:
    head = RequestHead("GET", "/", "origin", ())
    with pytest.raises(AttributeError):
        head.target = "/other"  # type: ignore[misc]


@pytest.mark.parametrize("event", [Data(b"x"), End(), NO_BODY])
def test_an_event_cannot_be_changed(event: Data | End | Framing) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.__setattr__(dataclasses.fields(event)[0].name, None)
