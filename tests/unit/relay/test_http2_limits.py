"""What an HTTP/2 peer may make us do, counted by the second."""

from __future__ import annotations

import pytest
from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from hpack import HPACKDecodingError
from hyperframe.frame import Frame

from egress.relay import http2_limits
from egress.relay.http2_limits import (
    CONNECTION_WINDOW_BYTES,
    MAX_HEAD_BYTES,
    MAX_STREAMS,
    STREAM_WINDOW_BYTES,
    FieldDecoder,
    FloodError,
    Http2Counters,
    encode_headers,
    new_connection,
    read_events,
    start_connection,
)

CHEAP: list[tuple[events.Event, int]] = [
    (events.StreamReset(stream_id=1), 200),
    (events.RemoteSettingsChanged(), 20),
    (events.PingReceived(ping_data=b"12345678"), 60),
    (events.PingAckReceived(ping_data=b"12345678"), 60),
    (events.PriorityUpdated(), 400),
    (events.SettingsAcknowledged(), 20),
    (events.WindowUpdated(stream_id=1, delta=1), 4000),
]


@pytest.mark.parametrize(("event", "most"), CHEAP, ids=lambda case: type(case).__name__)
def test_so_many_in_a_second_and_no_more(event: events.Event, most: int) -> None:
    bounds = Http2Counters()
    for _ in range(3):
        for _ in range(most):
            bounds.count(event)
        bounds.new_second()
    for _ in range(most):
        bounds.count(event)
    with pytest.raises(FloodError) as caught:
        bounds.count(event)
    assert caught.value.error_code == ErrorCodes.ENHANCE_YOUR_CALM


def test_windows_may_be_opened_for_each_kib_that_was_sent_in_whatever_second() -> None:
    bounds, opened = Http2Counters(), events.WindowUpdated(stream_id=1, delta=1)
    bounds.wrote(5 * 1024 + 1023, blocked=False)
    bounds.new_second()
    for _ in range(4000 + 5):
        bounds.count(opened)
    with pytest.raises(FloodError):
        bounds.count(opened)
    # What was paid for is not paid for again.
    bounds.new_second()
    for _ in range(4000):
        bounds.count(opened)
    with pytest.raises(FloodError):
        bounds.count(opened)


def test_what_was_sent_pays_for_windows_alone_and_is_not_hoarded() -> None:
    bounds, opened = Http2Counters(), events.WindowUpdated(stream_id=1, delta=1)
    bounds.wrote(1 << 30, blocked=False)
    for _ in range(4000 + 32 * 1024):
        bounds.count(opened)
    with pytest.raises(FloodError):
        bounds.count(opened)
    bounds.wrote(1 << 20, blocked=False)
    for _ in range(60):
        bounds.count(events.PingReceived(ping_data=b"12345678"))
    with pytest.raises(FloodError):
        bounds.count(events.PingReceived(ping_data=b"12345678"))


def test_data_that_is_some_is_never_a_flood() -> None:
    bounds = Http2Counters()
    full, last = events.DataReceived(stream_id=1, data=b"x"), events.DataReceived(stream_id=1, data=b"")
    last.stream_ended = events.StreamEnded(stream_id=1)
    for _ in range(1000):
        bounds.count(full)
        bounds.count(last)
    empty = events.DataReceived(stream_id=1, data=b"")
    for _ in range(200):
        bounds.count(empty)
    with pytest.raises(FloodError):
        bounds.count(empty)


def test_what_goes_unread_is_counted_only_while_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2_limits, "MAX_UNREAD_BYTES", 100)
    bounds = Http2Counters()
    for _ in range(10):
        bounds.wrote(90, blocked=True)
        bounds.wrote(90, blocked=False)
    bounds.wrote(90, blocked=True)
    with pytest.raises(FloodError):
        bounds.wrote(90, blocked=True)


def pair() -> tuple[H2Connection, H2Connection]:
    ours, theirs = new_connection(client_side=False), new_connection(client_side=True)
    start_connection(ours)
    start_connection(theirs)
    theirs.receive_data(ours.data_to_send())
    return ours, theirs


def test_our_settings_reach_the_peer() -> None:
    _, theirs = pair()
    assert theirs.remote_settings.max_concurrent_streams == MAX_STREAMS
    assert theirs.remote_settings.initial_window_size == STREAM_WINDOW_BYTES
    assert theirs.remote_settings.max_header_list_size == MAX_HEAD_BYTES
    assert theirs.outbound_flow_control_window == CONNECTION_WINDOW_BYTES
    assert theirs.remote_settings.enable_push == 0
    assert new_connection(client_side=True).local_settings.enable_push == 0


def test_a_read_that_is_a_flood_gives_nothing_to_act_on() -> None:
    ours, theirs = pair()
    for _ in range(61):
        theirs.ping(b"12345678")
    with pytest.raises(FloodError):
        read_events(ours, Http2Counters(), theirs.data_to_send())


def test_a_read_that_is_none_is_a_fault_of_the_protocol() -> None:
    ours, theirs = pair()
    found = read_events(ours, Http2Counters(), theirs.data_to_send())
    assert any(isinstance(event, events.RemoteSettingsChanged) for event in found)
    with pytest.raises(ProtocolError):
        read_events(ours, Http2Counters(), b"\0" * 100)


def test_fields_are_the_bytes_that_they_were() -> None:
    assert encode_headers((("x", "\xe9\xff"),)) == [(b"x", b"\xe9\xff")]


def test_no_frame_is_formatted_for_a_log_line_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    formatted: list[Frame] = []

    def format_body(frame: Frame) -> str:
        formatted.append(frame)
        return ""

    monkeypatch.setattr(Frame, "_body_repr", format_body)
    client, server = new_connection(client_side=True), new_connection(client_side=False)
    start_connection(client)
    start_connection(server)
    stream = client.get_next_available_stream_id()
    head = [(":method", "POST"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")]
    client.send_headers(stream, head)
    client.send_data(stream, b"x" * 1000, end_stream=True)
    found = read_events(server, Http2Counters(), client.data_to_send())
    assert any(isinstance(event, events.DataReceived) for event in found)
    assert formatted == []


def test_a_head_that_only_changes_its_table_is_refused() -> None:
    """A byte for each change, and none of them counts as a field: a second of the loop for a megabyte."""
    decoder = FieldDecoder()
    good = b"\x20\x3f\xe1\x1f" + b"\x82\x84\x87"
    assert [name for name, _ in decoder.decode(good, raw=True)] == [b":method", b":path", b":scheme"]
    assert len(list(decoder.decode(good, raw=True))) == 3, "each head may do so anew"
    with pytest.raises(HPACKDecodingError):
        decoder.decode(b"\x20" * 3 + b"\x82", raw=True)


def test_what_comes_in_is_decoded_and_checked_by_ours() -> None:
    made = new_connection(client_side=False)
    assert isinstance(made.decoder, FieldDecoder)
    assert made.decoder.max_header_list_size == MAX_HEAD_BYTES
    assert not made.config.validate_inbound_headers


@pytest.mark.parametrize(
    "field", [("x-a", "b\r\nc: d"), ("X-A", "b"), ("connection", "close"), ("te", "gzip")]
)
def test_a_malformed_head_is_a_fault_of_the_connection(field: tuple[str, str]) -> None:
    client = H2Connection(H2Configuration(validate_outbound_headers=False, normalize_outbound_headers=False))
    server = new_connection(client_side=False)
    client.initiate_connection()
    start_connection(server)
    head = [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")]
    client.send_headers(1, head, end_stream=True)
    assert any(isinstance(each, events.RequestReceived) for each in read(server, client))
    client.send_headers(3, [*head, field], end_stream=True)
    with pytest.raises(ProtocolError):
        read(server, client)


def read(server: H2Connection, client: H2Connection) -> list[events.Event]:
    return read_events(server, Http2Counters(), client.data_to_send())
