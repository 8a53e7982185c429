"""Readers keep the order of a connection: one exchange at a time, faults for good, no byte lost."""

from __future__ import annotations

import pytest

from egress.errors import UsageError, WireError
from egress.http1 import (
    Data,
    End,
    Informational,
    MessageLimits,
    RequestHead,
    RequestReader,
    ResponseHead,
    ResponseReader,
)

GET = b"GET /one HTTP/1.1\r\nHost: a\r\n\r\n"
NEXT = b"GET /two HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SWITCH = b"HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"


def target(events: list[RequestHead | Data | End]) -> str:
    assert isinstance(events[0], RequestHead)
    return events[0].target


def expecting(
    method: str = "GET", limits: MessageLimits | None = None, upgrade: tuple[str, ...] = ()
) -> ResponseReader:
    reader = ResponseReader(limits or MessageLimits())
    reader.expect(method, upgrade=upgrade)
    return reader


# Requests ---------------------------------------------------------------------------------------


def test_a_request_is_head_data_end() -> None:
    reader = RequestReader()
    head, *rest = reader.feed(POST + b"hel")
    assert isinstance(head, RequestHead)
    assert rest == [Data(b"hel")]
    assert not reader.waiting
    assert reader.feed(b"lo") == [Data(b"lo"), End()]
    assert reader.waiting


def test_a_request_without_body_ends_at_once() -> None:
    assert RequestReader().feed(GET)[1:] == [End()]
    assert RequestReader().feed(GET.replace(b"Host", b"Content-Length: 0\r\nHost"))[1:] == [End()]


def test_nothing_in_nothing_out() -> None:
    reader = RequestReader()
    assert reader.feed(b"") == []
    assert reader.idle


def test_is_idle_only_before_the_first_byte_of_a_request() -> None:
    reader = RequestReader()
    seen = [reader.idle]
    for piece in (POST[:5], POST[5:], b"hell", b"o"):
        reader.feed(piece)
        seen.append(reader.idle)
    reader.next_message()
    assert [*seen, reader.idle] == [True, False, False, False, False, True]


def test_a_request_that_has_begun_to_come_ahead_is_not_cut_short() -> None:
    reader = RequestReader()
    reader.feed(GET + NEXT[:10])
    assert reader.next_message() == []
    assert target(reader.feed(NEXT[10:])) == "/two"


def test_a_target_that_fills_the_head_is_named_as_what_is_too_long() -> None:
    with pytest.raises(WireError) as refusal:
        RequestReader(MessageLimits(head=50)).feed(b"GET /" + b"a" * 60)
    assert refusal.value.status == 414


def test_a_pipelined_request_waits_for_its_turn() -> None:
    reader = RequestReader()
    assert target(reader.feed(GET + NEXT[:10])) == "/one"
    assert reader.feed(NEXT[10:]) == []
    assert reader.waiting
    assert target(reader.next_message()) == "/two"
    assert reader.next_message() == []
    assert reader.idle


def test_a_fault_in_a_pipelined_request_does_not_touch_the_one_before() -> None:
    reader = RequestReader()
    assert reader.feed(GET + b"\x00\x00")[1:] == [End()]
    with pytest.raises(WireError):
        reader.next_message()


def test_what_is_kept_is_bounded_but_one_read_is_always_taken() -> None:
    reader = RequestReader(MessageLimits(pending=10))
    assert len(reader.feed(GET + b"x" * 10_000)) == 2
    with pytest.raises(WireError, match="Too much"):
        reader.feed(b"x")


def test_up_to_the_bound_bytes_may_come_ahead() -> None:
    reader = RequestReader(MessageLimits(pending=10))
    reader.feed(GET)
    assert reader.feed(b"x" * 10) == []


def test_no_request_follows_one_that_closes() -> None:
    reader = RequestReader()
    reader.feed(GET.replace(b"Host", b"Connection: close\r\nHost") + NEXT)
    with pytest.raises(UsageError):
        reader.next_message()


def test_no_request_follows_one_that_is_not_complete() -> None:
    reader = RequestReader()
    reader.feed(POST)
    with pytest.raises(UsageError):
        reader.next_message()


def test_a_client_may_leave_between_requests() -> None:
    assert RequestReader().eof() == []
    reader = RequestReader()
    reader.feed(GET)
    assert reader.eof() == []


@pytest.mark.parametrize("sent", [GET[:-1], b"G", POST, POST + b"hell"])
def test_a_client_must_not_leave_inside_a_request(sent: bytes) -> None:
    reader = RequestReader()
    reader.feed(sent)
    with pytest.raises(WireError):
        reader.eof()


def test_requests_sent_before_leaving_are_still_read() -> None:
    reader = RequestReader()
    reader.feed(GET + NEXT + b"GET")
    assert reader.eof() == []
    assert target(reader.next_message()) == "/two"
    with pytest.raises(WireError):
        reader.next_message()


def test_feeding_after_the_end_is_a_mistake_of_the_caller() -> None:
    reader = RequestReader()
    reader.eof()
    with pytest.raises(UsageError):
        reader.feed(GET)


def test_a_fault_is_for_good() -> None:
    reader = RequestReader()
    with pytest.raises(WireError) as first:
        reader.feed(b"GET / HTTP/2.0\r\n\r\n")
    for call in (lambda: reader.feed(GET), reader.eof, reader.next_message, reader.detach):
        with pytest.raises(WireError) as later:
            call()
        assert (later.value.message, later.value.status) == (first.value.message, 505)
        assert later.value is not first.value


def test_a_message_whose_fault_is_known_is_not_handed_out() -> None:
    reader = RequestReader()
    with pytest.raises(WireError):
        reader.feed(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX")


def test_limits_reach_every_part() -> None:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    for limits, wire in (
        (MessageLimits(head=10), head),
        (MessageLimits(fields=1), head),
        (MessageLimits(target=0), head),
        (MessageLimits(chunk_extension=1), head + b"1;x\r\n"),
        (MessageLimits(chunk_extensions=1), head + b"1;x\r\n"),
        (MessageLimits(trailers=3), head + b"0\r\nA: b\r\n\r\n"),
        (MessageLimits(trailer_fields=0), head + b"0\r\nA: b\r\n\r\n"),
    ):
        with pytest.raises(WireError):
            RequestReader(limits).feed(wire)


@pytest.mark.parametrize(
    "head",
    [
        b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    ],
)
def test_after_a_switch_the_rest_is_handed_over_untouched(head: bytes) -> None:
    reader = RequestReader()
    reader.feed(head + b"\x16\x03")
    reader.feed(b"\x01\x00")
    assert reader.detach() == b"\x16\x03\x01\x00"
    with pytest.raises(UsageError):
        reader.feed(b"more")
    with pytest.raises(UsageError):
        reader.detach()


def test_a_refused_upgrade_goes_on_as_http() -> None:
    reader = RequestReader()
    reader.feed(GET.replace(b"Host", b"Connection: upgrade\r\nUpgrade: x\r\nHost") + NEXT)
    assert target(reader.next_message()) == "/two"


def test_without_a_switch_nothing_is_handed_over() -> None:
    reader = RequestReader()
    with pytest.raises(UsageError):
        reader.detach()
    reader.feed(GET + NEXT)
    with pytest.raises(UsageError):
        reader.detach()


# Responses --------------------------------------------------------------------------------------


def test_a_response_answers_the_request_it_was_expected_for() -> None:
    reader = expecting()
    head, *rest = reader.feed(OK)
    assert isinstance(head, ResponseHead)
    assert rest == [Data(b"ok"), End()]
    assert reader.reusable
    reader.expect("HEAD")
    assert reader.feed(OK[:-2])[1:] == [End()]
    assert reader.reusable


def test_interim_responses_come_before_the_final_one() -> None:
    events = expecting().feed(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nLink: y\r\n\r\n" + OK)
    assert events[:2] == [Informational(100, "Continue", ()), Informational(103, "x", (("link", "y"),))]
    assert isinstance(events[2], ResponseHead)


def test_interim_responses_are_bounded() -> None:
    interim = b"HTTP/1.1 102 x\r\n\r\n"
    limits = MessageLimits(informational=2)
    assert len(expecting(limits=limits).feed(interim * 2)) == 2
    with pytest.raises(WireError, match="interim"):
        expecting(limits=limits).feed(interim * 3)


def test_every_fault_of_a_server_is_a_bad_gateway() -> None:
    for wire in (b"HTTP/3 200\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: x\r\n\r\n", b"\x00"):
        reader = expecting()
        for _ in range(2):
            with pytest.raises(WireError) as fault:
                reader.feed(wire)
            assert fault.value.status == 502
        assert not reader.reusable


def test_a_body_without_length_ends_with_the_connection() -> None:
    reader = expecting()
    assert reader.feed(b"HTTP/1.1 200 OK\r\n\r\nabc")[1:] == [Data(b"abc")]
    assert reader.eof() == [End()]
    assert not reader.reusable


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200", OK[:-1], b"HTTP/1.1 100 x\r\n\r\n"])
def test_a_server_must_not_leave_inside_a_response(sent: bytes) -> None:
    reader = expecting()
    reader.feed(sent)
    with pytest.raises(WireError) as fault:
        reader.eof()
    assert fault.value.status == 502


@pytest.mark.parametrize(
    ("sent", "started"), [(b"", False), (b"H", True), (b"HTTP/1.1 100 x\r\n\r\n", True), (OK, True)]
)
def test_tells_whether_the_server_has_said_anything(sent: bytes, started: bool) -> None:
    """A request on a stale connection may be sent again only if nothing of an answer came."""
    reader = expecting()
    reader.feed(sent)
    assert reader.started is started


@pytest.mark.parametrize(
    "wire", [OK.replace(b"Content", b"Connection: close\r\nContent"), OK.replace(b"1.1", b"1.0", 1)]
)
def test_a_connection_that_closes_is_not_used_again(wire: bytes) -> None:
    reader = expecting()
    reader.feed(wire)
    assert not reader.reusable
    with pytest.raises(UsageError):
        reader.expect("GET")


@pytest.mark.parametrize("pieces", [[OK + b"H"], [OK, b"H"], [OK, OK]])
def test_bytes_behind_a_response_never_become_the_next_one(pieces: list[bytes]) -> None:
    reader = expecting()
    assert len(reader.feed(pieces[0])) == 3
    for piece in pieces[1:]:
        assert reader.feed(piece) == []
    assert not reader.reusable
    with pytest.raises(WireError, match="no response"):
        reader.expect("GET")


def test_bytes_before_any_request_are_nobodys_response() -> None:
    reader = ResponseReader()
    assert reader.reusable
    assert reader.feed(OK) == []
    with pytest.raises(WireError):
        reader.expect("GET")


def test_a_read_of_nothing_does_no_harm() -> None:
    reader = expecting()
    reader.feed(OK)
    assert reader.feed(b"") == []
    assert reader.reusable


def test_after_a_fault_nothing_is_expected() -> None:
    reader = expecting()
    with pytest.raises(WireError):
        reader.feed(b"x\x00")
    with pytest.raises(WireError):
        reader.expect("GET")


def test_a_response_that_has_begun_stays_begun() -> None:
    reader = expecting()
    reader.feed(OK[:-1])
    assert reader.started
    assert not reader.reusable


def test_the_end_of_a_connection_is_told_once() -> None:
    reader = expecting()
    reader.feed(b"HTTP/1.1 200 OK\r\n\r\nx")
    assert reader.eof() == [End()]
    assert reader.eof() == []
    assert reader.waiting


def test_one_response_is_expected_at_a_time() -> None:
    with pytest.raises(UsageError):
        expecting().expect("GET")


def test_a_server_may_leave_between_responses() -> None:
    reader = expecting()
    reader.feed(OK)
    assert reader.eof() == []
    assert not reader.reusable


def test_a_switch_hands_over_what_follows() -> None:
    reader = expecting(upgrade=("websocket",))
    assert reader.feed(SWITCH + b"\x81")[1:] == [End()]
    assert reader.feed(b"\x00") == []
    assert not reader.reusable
    assert reader.detach() == b"\x81\x00"


def test_a_tunnel_hands_over_what_follows() -> None:
    reader = expecting("CONNECT")
    reader.feed(b"HTTP/1.1 200 OK\r\n\r\nraw")
    assert reader.detach() == b"raw"


@pytest.mark.parametrize(("status", "is_open"), [(200, True), (299, True), (300, False), (407, False)])
def test_a_tunnel_opens_with_success_alone(status: int, is_open: bool) -> None:
    reader = expecting("CONNECT")
    length = "" if is_open else "Content-Length: 0\r\n"
    reader.feed(f"HTTP/1.1 {status} x\r\n{length}\r\n".encode())
    assert reader.reusable is not is_open
    if is_open:
        assert reader.detach() == b""
    else:
        with pytest.raises(UsageError):
            reader.detach()


def test_a_refused_tunnel_is_an_ordinary_response() -> None:
    reader = expecting("CONNECT")
    assert reader.feed(OK.replace(b"200", b"407"))[1:] == [Data(b"ok"), End()]
    with pytest.raises(UsageError):
        reader.detach()


def test_what_comes_ahead_of_a_switch_is_bounded() -> None:
    reader = expecting("CONNECT", MessageLimits(pending=4))
    reader.feed(b"HTTP/1.1 200 OK\r\n\r\nraw")
    with pytest.raises(WireError):
        reader.feed(b"xx")


# Requests that do not fit ---------------------------------------------------------------------------


def test_a_request_that_does_not_fit_is_had_back_as_it_came() -> None:
    """With what stands behind it, however much of that has been read."""
    first, other = (
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: b\r\ncontent-length: 4\r\n\r\nbo",
    )
    reader = RequestReader(fits=lambda head: head.host == "a")
    assert [type(event) for event in reader.feed(first + other)] == [RequestHead, End]
    assert reader.take_back() == b"", "it is not read yet"
    assert not any(isinstance(event, RequestHead | Data) for event in reader.next_message())
    assert reader.take_back() == other
    with pytest.raises(UsageError):
        reader.feed(b"dy")


def test_a_request_that_fits_is_never_had_back() -> None:
    reader = RequestReader(fits=lambda head: True)
    reader.feed(b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n")
    reader.next_message()
    assert reader.take_back() == b""
