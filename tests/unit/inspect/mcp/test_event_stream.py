"""Event streams: read as the standard says, and written in one spelling."""

from __future__ import annotations

import pytest

from egress.inspect.mcp.event_stream import (
    KEEP_ALIVE,
    MAX_EVENT_BYTES,
    EventReader,
    EventStreamError,
    StreamEvent,
)


def read(*pieces: bytes) -> list[StreamEvent]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [StreamEvent(b"a")]),
        (b"data:a\r\n\r\n", [StreamEvent(b"a")]),
        (b"data:  a\r\r", [StreamEvent(b" a")]),
        (b"data: a\rdata: b\n\r\n", [StreamEvent(b"a\nb")]),
        (b"data\n\n", [StreamEvent(b"")]),
        (b"event: message\nid: 7\nretry: 10\ndata: a\n\n", [StreamEvent(b"a", b"message", b"7", b"10")]),
        (b"id\ndata:\n\n", [StreamEvent(b"", b"", b"")]),
        (b"retry: x\ndata: a\nother: b\nno colon\n\n", [StreamEvent(b"a")]),
        (b": hello\n\ndata: a\n: hidden\n\n", [StreamEvent(), StreamEvent(b"a")]),
        (b"\n\n\n", []),
        (b"data: a\n", []),
        (b"data: a", []),
        (b"event: x\n\ndata: b\n\n", [StreamEvent(kind=b"x"), StreamEvent(b"b")]),
    ],
)
def test_a_stream_is_cut_into_events(stream: bytes, events: list[StreamEvent]) -> None:
    assert read(stream) == events
    assert read(*(stream[at : at + 1] for at in range(len(stream)))) == events


@pytest.mark.parametrize(
    "stream",
    [b"\xef\xbb\xbfdata: a\n\n", b"id: \x00\n", b"id: \xe2\x80\xa8data\n", b"id: " + b"1" * 1025 + b"\n"],
)
def test_a_stream_that_clients_read_differently_is_refused(stream: bytes) -> None:
    with pytest.raises(EventStreamError):
        read(stream)


def feed_on(reader: EventReader, unit: bytes) -> None:
    """Feed more than the bound, and look at what is kept on the way."""
    for _ in range(MAX_EVENT_BYTES // 1024 + 2):
        list(reader.feed(unit * (1024 // len(unit) + 1)))
        assert reader.held <= MAX_EVENT_BYTES


@pytest.mark.parametrize("unit", [b"x", b"data: x\n", b": x\ndata\n"])
def test_an_event_is_bounded(unit: bytes) -> None:
    reader = EventReader()
    list(reader.feed(b"data: a\n"))
    with pytest.raises(EventStreamError):
        feed_on(reader, unit)
    small = EventReader()
    for _ in range(3):
        assert len(list(small.feed(b"data: " + b"x" * (MAX_EVENT_BYTES - 100) + b"\n\n"))) == 1
    assert small.held == 0


@pytest.mark.parametrize(
    ("event", "data", "written"),
    [
        (StreamEvent(b"a"), b"b", b"data: b\n\n"),
        (StreamEvent(b"a", b"message", b"7", b"10"), b"b", b"event: message\nid: 7\nretry: 10\ndata: b\n\n"),
        (StreamEvent(b"a"), b"b\nc", b"data: b\ndata: c\n\n"),
        (StreamEvent(b"a", event_id=b"7"), b"", b"id: 7\ndata: \n\n"),
        (StreamEvent(), b"", KEEP_ALIVE),
        (StreamEvent(b"a"), '"\u2028\u2029\u0085"'.encode(), b'data: "\\u2028\\u2029\\u0085"\n\n'),
    ],
)
def test_an_event_is_written_in_one_spelling(event: StreamEvent, data: bytes, written: bytes) -> None:
    assert event.written(data) == written
