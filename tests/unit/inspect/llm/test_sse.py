"""Server-sent events: every way to end a line, every way to cut the bytes."""

from __future__ import annotations

import pytest

from egress.inspect.llm.sse import MAX_SSE_EVENT_BYTES, SseEvent, SseReader


def events(*pieces: bytes) -> list[SseEvent]:
    reader = SseReader()
    found = [event for piece in pieces for event in reader.feed(piece)]
    last = reader.end()
    assert reader.held == 0
    return [*found, *([] if last is None else [last])]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_any_line_ending_ends_a_line(end: bytes) -> None:
    stream = end.join([b": hello", b"event: a", b"data: 1", b"data:2", b"", b"data: 3", b"", b"x"])
    found = events(stream)
    assert [(event.name, event.data) for event in found] == [("a", b"1\n2"), ("", b"3"), ("", b"")]
    assert b"".join(event.raw for event in found) == stream


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_do_not_depend_on_the_pieces(end: bytes) -> None:
    stream = end.join([b"event: a", b"data: {}", b"", b"", b"data: 3", b"", b""])
    whole = [(event.name, event.data) for event in events(stream) if event.data]
    for cut in range(len(stream)):
        found = events(stream[:cut], stream[cut:])
        assert [(event.name, event.data) for event in found if event.data] == whole
        assert b"".join(event.raw for event in found) == stream
    assert [(event.name, event.data) for event in events(*map(bytes, zip(stream))) if event.data] == whole


def test_a_byte_order_mark_is_no_part_of_the_first_event() -> None:
    assert [event.data for event in events(b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n")] == [b"1", b""]


def test_an_event_that_is_too_long_passes_unread_and_the_next_one_is_read() -> None:
    reader, passed = SseReader(), bytearray()
    piece = b"x" * 65_536
    found: list[SseEvent] = []
    for _ in range(MAX_SSE_EVENT_BYTES // len(piece) + 2):
        found += reader.feed(piece)
        passed += piece
        assert reader.held <= MAX_SSE_EVENT_BYTES
    end = b"\n\ndata: 1\n\n"
    found += reader.feed(end)
    assert found[0].is_unread
    assert [(event.data, event.is_unread) for event in found[-2:]] == [(b"", True), (b"1", False)]
    assert b"".join(event.raw for event in found) == bytes(passed) + end
