"""Bodies that wait for a window: in turns, within bounds, and gone when their stream is."""

from __future__ import annotations

import pytest
from h2 import events
from h2.connection import H2Connection

from egress.relay.http2_limits import new_connection, start_connection
from egress.relay.http2_send_queue import (
    STREAM_HIGH_BYTES,
    STREAM_LOW_BYTES,
    TOTAL_HIGH_BYTES,
    Http2SendQueue,
)
from tests.unit.relay.wires import CountedTurn

HEAD = [(":method", "GET"), (":scheme", "https"), (":authority", "x"), (":path", "/")]


class Bench:
    """An outbox on a server's connection, and the client that reads it."""

    def __init__(self, streams: int = 1, window: int = 0, room: int = STREAM_HIGH_BYTES) -> None:
        self.ours, self.client = new_connection(client_side=False), H2Connection()
        start_connection(self.ours)
        self.client.initiate_connection()
        for number in range(streams):
            self.client.send_headers(2 * number + 1, HEAD, end_stream=True)
        self.told: list[tuple[int, bool]] = []
        self.outbox = Http2SendQueue(
            self.ours, lambda stream, *, congested: self.told.append((stream, congested)), room
        )
        self.exchange()
        for number in range(streams):
            self.ours.send_headers(2 * number + 1, [(":status", "200")])
        if window:
            self.client.increment_flow_control_window(window)
            for number in range(streams):
                self.client.increment_flow_control_window(window, 2 * number + 1)
        self.exchange()

    def exchange(self) -> list[events.Event]:
        self.ours.receive_data(self.client.data_to_send())
        return self.client.receive_data(self.ours.data_to_send())

    def flushed(self) -> dict[int, bytes]:
        """What a flush sends, by stream."""
        self.outbox.flush()
        found: dict[int, bytes] = {}
        for event in self.exchange():
            if isinstance(event, events.DataReceived):
                found[event.stream_id] = found.get(event.stream_id, b"") + (event.data or b"")
        return found


def test_what_fits_is_sent_and_the_rest_waits() -> None:
    bench = Bench()
    bench.outbox.put(1, b"x" * 70_000)
    assert len(bench.flushed()[1]) == 65_535
    assert len(bench.outbox) == 70_000 - 65_535
    assert bench.outbox.sent == 65_535
    bench.client.increment_flow_control_window(10_000)
    bench.client.increment_flow_control_window(10_000, 1)
    bench.exchange()
    assert len(bench.flushed()[1]) == 70_000 - 65_535
    assert len(bench.outbox) == 0


def test_streams_take_turns() -> None:
    bench = Bench(3)
    for stream in (1, 3, 5):
        bench.outbox.put(stream, b"x" * 60_000)
    assert {len(data) for data in bench.flushed().values()} <= {
        65_535 // 3 + spare for spare in range(-16_384, 16_384)
    }
    assert len(bench.outbox) == 180_000 - 65_535


def test_nothing_goes_while_the_connection_is_blocked() -> None:
    bench = Bench()
    bench.outbox.is_blocked = True
    bench.outbox.put(1, b"hello")
    bench.outbox.end(1)
    assert bench.flushed() == {}
    assert not bench.outbox.is_empty
    bench.outbox.is_blocked = False
    assert bench.flushed() == {1: b"hello"}
    assert bench.outbox.is_empty


@pytest.mark.parametrize("trailers", [(), (("x-check", "1"),)])
def test_an_end_that_waits_is_not_nothing(trailers: tuple[tuple[str, str], ...]) -> None:
    bench = Bench()
    bench.outbox.is_blocked = True
    bench.outbox.end(1, trailers)
    bench.outbox.flush()
    assert (len(bench.outbox), bench.outbox.is_empty) == (0, False)
    bench.outbox.is_blocked = False
    bench.outbox.flush()
    kinds = {type(event) for event in bench.exchange()}
    assert events.StreamEnded in kinds
    assert (events.TrailersReceived in kinds) is bool(trailers)
    assert bench.outbox.is_empty


def test_an_empty_piece_is_none() -> None:
    bench = Bench()
    bench.outbox.put(1, b"")
    assert bench.outbox.is_empty


def test_a_stream_that_is_full_is_told_and_told_again_when_it_is_not() -> None:
    bench = Bench()
    bench.outbox.put(1, b"x" * (STREAM_HIGH_BYTES + 65_535 + 1))
    bench.outbox.flush()
    assert bench.told == [(1, True)]
    bench.client.increment_flow_control_window(10 * STREAM_HIGH_BYTES)
    bench.client.increment_flow_control_window(STREAM_HIGH_BYTES - STREAM_LOW_BYTES, 1)
    bench.exchange()
    bench.outbox.flush()
    assert bench.told == [(1, True)], "not yet"
    bench.client.increment_flow_control_window(10, 1)
    bench.exchange()
    bench.outbox.flush()
    assert bench.told == [(1, True), (1, False)]


def test_a_turn_sends_some_frames_and_the_next_ones_the_rest() -> None:
    bench = Bench(8)
    for number in range(8):
        bench.outbox.put(2 * number + 1, b"x" * 8000)
    sent = []
    while len(bench.outbox):
        before = bench.outbox.sent
        bench.outbox.flush(CountedTurn(3))
        sent.append(bench.outbox.sent - before)
        assert bench.outbox.is_due
    assert sent == [32_000, 32_000]
    bench.outbox.flush()
    assert not bench.outbox.is_due


def test_a_connection_of_many_holds_less() -> None:
    room = STREAM_HIGH_BYTES // 16
    bench = Bench(room=room)
    bench.outbox.put(1, b"x" * (room + 65_535 + 1))
    bench.outbox.flush()
    assert bench.told == [(1, True)]


def test_all_are_told_when_the_connection_is_full() -> None:
    bench = Bench(90)
    for number in range(90):
        bench.outbox.put(2 * number + 1, b"x" * (TOTAL_HIGH_BYTES // 80))
    bench.outbox.flush()
    assert len(bench.told) >= 85
    assert all(congested for _, congested in bench.told)


def test_a_stream_that_is_over_is_forgotten_and_hurts_no_other() -> None:
    bench = Bench(2)
    bench.outbox.put(1, b"one")
    bench.outbox.put(3, b"three")
    bench.client.reset_stream(1)
    bench.exchange()
    assert bench.flushed() == {3: b"three"}
    assert 1 not in bench.outbox
    bench.outbox.put(3, b"more")
    bench.outbox.drop(3)
    bench.outbox.drop(3)
    assert len(bench.outbox) == 0
    assert bench.flushed() == {}
