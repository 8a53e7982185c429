"""Counted and open-ended bodies pass through in the pieces they came in."""

from __future__ import annotations

import pytest

from egress.errors import WireError
from egress.http1 import CHUNKED, NO_BODY, UNTIL_CLOSE, Data, End, Framing, MessageLimits
from egress.http1.message_readers import ChunkedBody, CountedBody, OpenEndedBody, read_body

Events = list[Data | End]


def ignore(_event: Data | End) -> None: ...


def test_a_counted_body_ends_at_its_length_and_leaves_the_rest() -> None:
    events: Events = []
    body = CountedBody(5)
    assert body.take(b"hel", events.append) is None
    assert body.take(b"loGET /", events.append) == b"GET /"
    assert events == [Data(b"hel"), Data(b"lo"), End()]


def test_an_exact_read_leaves_nothing() -> None:
    events: Events = []
    assert CountedBody(5).take(b"hello", events.append) == b""
    assert events == [Data(b"hello"), End()]


def test_a_counted_body_must_not_be_cut_short() -> None:
    body = CountedBody(5)
    body.take(b"hell", ignore)
    with pytest.raises(WireError, match="before it is complete"):
        body.close()


def test_an_open_ended_body_ends_with_the_connection() -> None:
    events: Events = []
    body = OpenEndedBody()
    assert body.take(b"a\r\n\r\n0\r\n\r\n", events.append) is None
    assert events == [Data(b"a\r\n\r\n0\r\n\r\n")]
    assert body.close() == End()


@pytest.mark.parametrize("body", [CountedBody(1 << 40), OpenEndedBody()])
def test_a_read_is_handed_on_without_a_copy(body: CountedBody | OpenEndedBody) -> None:
    piece = bytes(70_000)
    events: Events = []
    body.take(piece, events.append)
    assert isinstance(events[0], Data)
    assert events[0].data is piece


def test_five_gibibytes_leave_no_trace() -> None:
    """The same 16 MiB go through often enough; nothing of them may stay behind in the body."""
    piece = bytes(16 << 20)
    body = CountedBody((5 << 30) + 1)
    for _ in range(320):
        assert body.take(piece, ignore) is None
    assert body._left == 1


@pytest.mark.parametrize(
    ("framing", "kind"),
    [
        (CHUNKED, ChunkedBody),
        (UNTIL_CLOSE, OpenEndedBody),
        (Framing.sized(1), CountedBody),
        (Framing.sized(0), type(None)),
        (NO_BODY, type(None)),
    ],
)
def test_every_framing_has_its_reader(framing: Framing, kind: type) -> None:
    assert type(read_body(framing, MessageLimits(), of_request=True)) is kind
