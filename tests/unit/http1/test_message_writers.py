"""Writers send exactly what the head stated, in the order of a connection."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from egress.errors import UsageError, WireError
from egress.http1 import (
    CHUNKED,
    NO_BODY,
    UNTIL_CLOSE,
    Body,
    Framing,
    RequestHead,
    RequestWriter,
    ResponseWriter,
    Version,
    framing_for,
)
from egress.types import Headers

HOST: Headers = (("host", "a"),)


def ask(
    method: str = "GET", version: Version = "1.1", *, keep_alive: bool = True, upgrade: tuple[str, ...] = ()
) -> RequestHead:
    return RequestHead(
        method, "/", "origin", HOST, host="a", version=version, keep_alive=keep_alive, upgrade=upgrade
    )


def answering(request: RequestHead | None) -> ResponseWriter:
    writer = ResponseWriter()
    writer.answer(request)
    return writer


def posting(framing: Framing) -> RequestWriter:
    writer = RequestWriter()
    writer.head("POST", "/", HOST, framing)
    return writer


@pytest.mark.parametrize(
    ("framing", "version", "expected"),
    [
        (CHUNKED, "1.1", CHUNKED),
        (UNTIL_CLOSE, "1.1", CHUNKED),
        (CHUNKED, "1.0", UNTIL_CLOSE),
        (UNTIL_CLOSE, "1.0", UNTIL_CLOSE),
        (Framing.sized(5), "1.0", Framing.sized(5)),
        (NO_BODY, "1.0", NO_BODY),
    ],
)
def test_a_response_is_framed_for_the_client_that_reads_it(
    framing: Framing, version: Version, expected: Framing
) -> None:
    assert framing_for(framing, version) == expected


def test_a_chunked_body() -> None:
    writer = posting(CHUNKED)
    assert writer.data(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"
    assert writer.end((("x-sum", "1"),)) == b"0\r\nx-sum: 1\r\n\r\n"


def test_an_empty_piece_never_ends_a_body() -> None:
    for framing in (CHUNKED, Framing.sized(1)):
        assert posting(framing).data(b"") == b""


def test_a_counted_body_is_sent_as_it_is() -> None:
    writer = posting(Framing.sized(5))
    piece = b"hello"
    assert writer.data(piece) is piece
    assert writer.end() == b""
    assert not writer.open


def test_more_than_stated_is_refused_before_any_of_it_is_sent() -> None:
    writer = posting(Framing.sized(5))
    writer.data(b"hell")
    with pytest.raises(WireError, match="longer") as error:
        writer.data(b"oGET / HTTP/1.1")
    assert error.value.status == 500
    assert writer.data(b"o") == b"o"
    assert writer.end() == b""


def test_less_than_stated_is_refused_at_the_end() -> None:
    writer = posting(Framing.sized(5))
    writer.data(b"hell")
    with pytest.raises(WireError, match="shorter") as error:
        writer.end()
    assert error.value.status == 500
    assert writer.open


def test_a_message_without_body_has_none() -> None:
    writer = posting(NO_BODY)
    with pytest.raises(WireError):
        writer.data(b"x")


def test_a_length_counts_for_a_counted_body_alone() -> None:
    writer = posting(Framing(Body.CHUNKED, 5))
    assert writer.end() == b"0\r\n\r\n"


def test_trailers_need_chunks() -> None:
    writer = posting(Framing.sized(1))
    writer.data(b"x")
    assert writer.end((("x", "y"),)) == b""


def test_a_refused_trailer_leaves_the_message_open() -> None:
    writer = posting(CHUNKED)
    with pytest.raises(WireError):
        writer.end((("host", "b"),))
    assert writer.end() == b"0\r\n\r\n"


@pytest.mark.parametrize(
    "call", [lambda writer: writer.data(b"x"), lambda writer: writer.end()], ids=["data", "end"]
)
def test_a_body_needs_a_head(call: Callable[[RequestWriter], bytes]) -> None:
    writer = RequestWriter()
    with pytest.raises(UsageError):
        call(writer)
    writer.head("GET", "/", HOST)
    writer.end()
    with pytest.raises(UsageError):
        call(writer)


def test_one_request_after_the_other() -> None:
    writer = RequestWriter()
    writer.head("GET", "/", HOST)
    with pytest.raises(UsageError):
        writer.head("GET", "/", HOST)
    writer.end()
    assert writer.head("GET", "/", HOST, close=True).endswith(b"connection: close\r\n\r\n")
    writer.end()
    assert writer.must_close
    with pytest.raises(UsageError):
        writer.head("GET", "/", HOST)


def test_a_refused_head_changes_nothing() -> None:
    writer = RequestWriter()
    with pytest.raises(WireError):
        writer.head("GET", "/", (*HOST, ("x", "\n")), close=True)
    assert not writer.open
    assert not writer.must_close
    assert writer.head("GET", "/", HOST)


def test_a_response_needs_a_request() -> None:
    writer = ResponseWriter()
    with pytest.raises(UsageError):
        writer.head(200, "", (), CHUNKED)
    with pytest.raises(UsageError):
        writer.informational(103)


def test_one_response_for_every_request() -> None:
    writer = answering(ask())
    with pytest.raises(UsageError):
        writer.answer(ask())
    writer.head(200, "", (), Framing.sized(0))
    with pytest.raises(UsageError):
        writer.answer(ask())
    writer.end()
    with pytest.raises(UsageError):
        writer.head(200, "", (), Framing.sized(0))
    writer.answer(ask("HEAD"))
    assert writer.head(200, "", (), NO_BODY)
    assert writer.end() == b""


def test_a_refused_response_may_be_replaced_by_an_error_page() -> None:
    writer = answering(ask())
    with pytest.raises(WireError):
        writer.head(200, "OK", (("x", "\n"),), CHUNKED)
    assert writer.head(502, "Bad Gateway", (), Framing.sized(0)).startswith(b"HTTP/1.1 502 Bad Gateway\r\n")


@pytest.mark.parametrize("request_", [None, ask(keep_alive=False), ask(version="1.0", keep_alive=False)])
def test_a_response_closes_where_the_request_leaves_no_choice(request_: RequestHead | None) -> None:
    writer = answering(request_)
    assert b"\r\nconnection: close\r\n" in writer.head(400, "", (), Framing.sized(0))
    writer.end()
    assert writer.must_close
    with pytest.raises(UsageError):
        writer.answer(ask())


def test_an_answer_to_what_could_not_be_read_may_be_chunked() -> None:
    writer = answering(None)
    assert writer.informational(103) == b""
    assert b"\r\nconnection: close\r\n" in writer.head(400, "", (), CHUNKED)


def test_a_response_closes_where_the_caller_says_so() -> None:
    writer = answering(ask())
    assert b"\r\nconnection: close\r\n" in writer.head(200, "", (), Framing.sized(0), close=True)
    writer.end()
    assert writer.must_close


def test_a_response_up_to_the_close_is_the_last() -> None:
    writer = answering(ask())
    writer.head(200, "", (), UNTIL_CLOSE)
    writer.end()
    assert writer.must_close


@pytest.mark.parametrize("status", [300, 407])
def test_a_refused_tunnel_is_followed_by_more(status: int) -> None:
    writer = answering(ask("CONNECT"))
    writer.head(status, "", (), Framing.sized(0))
    writer.end()
    writer.answer(ask())
    assert writer.head(200, "", (), Framing.sized(0))


def test_an_open_ended_response_closes() -> None:
    writer = answering(ask(version="1.0", keep_alive=False))
    writer.head(200, "", (), framing_for(CHUNKED, "1.0"))
    assert writer.data(b"abc") == b"abc"
    assert writer.end((("x", "y"),)) == b""
    assert writer.must_close


def test_a_client_of_http_1_0_gets_no_chunks_and_no_interim_responses() -> None:
    writer = answering(ask(version="1.0", keep_alive=False))
    assert writer.informational(100) == b""
    with pytest.raises(WireError) as error:
        writer.head(200, "", (), CHUNKED)
    assert error.value.status == 500


def test_interim_responses_come_before_the_final_one() -> None:
    writer = answering(ask())
    assert writer.informational(100, "Continue") == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert writer.informational(103) == b"HTTP/1.1 103 \r\n\r\n"
    writer.head(200, "", (), CHUNKED)
    with pytest.raises(UsageError):
        writer.informational(103)


def test_a_switch_must_have_been_asked_for() -> None:
    with pytest.raises(WireError, match="not requested") as error:
        answering(ask(upgrade=("h2c",))).head(101, "", (), NO_BODY, upgrade=("websocket",))
    assert error.value.status == 500
    with pytest.raises(WireError):
        answering(None).head(101, "", (), NO_BODY, upgrade=("websocket",))


def test_a_switch_leaves_the_connection_open_whatever_the_request_said() -> None:
    writer = answering(ask(keep_alive=False, upgrade=("websocket",)))
    assert b"close" not in writer.head(101, "", (), NO_BODY, upgrade=("websocket",))
    writer.end()
    assert not writer.must_close


@pytest.mark.parametrize(
    ("request_", "status", "upgrade"),
    [
        (ask(upgrade=("websocket",)), 101, ("websocket",)),
        (ask("CONNECT"), 200, ()),
        (ask("CONNECT"), 299, ()),
    ],
)
def test_no_http_follows_a_switch(request_: RequestHead, status: int, upgrade: tuple[str, ...]) -> None:
    writer = answering(request_)
    writer.head(status, "", (), NO_BODY, upgrade=upgrade)
    writer.end()
    assert not writer.must_close
    with pytest.raises(UsageError):
        writer.answer(ask())
