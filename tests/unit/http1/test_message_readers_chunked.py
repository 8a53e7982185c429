"""Chunked bodies: exactly the grammar, within bounds, in any pieces."""

from __future__ import annotations

import pytest

from egress.errors import WireError
from egress.http1 import Data, End, MessageLimits
from egress.http1.message_readers import ChunkedBody


def ignore(_event: Data | End) -> None: ...


def decode(
    *pieces: bytes, limits: MessageLimits | None = None, of_request: bool = True
) -> tuple[bytes, End | None, bytes | None]:
    """Return the data, the end if it came, and what was left over."""
    body = ChunkedBody(limits or MessageLimits(), of_request=of_request)
    events: list[Data | End] = []
    rest: bytes | None = None
    for piece in pieces:
        assert rest is None, "bytes behind the end"
        rest = body.take(piece, events.append)
    data = b"".join(event.data for event in events if isinstance(event, Data))
    assert b"" not in [event.data for event in events if isinstance(event, Data)]
    return data, next((event for event in events if isinstance(event, End)), None), rest


@pytest.mark.parametrize(
    ("wire", "data"),
    [
        (b"0\r\n\r\n", b""),
        (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"5\r\nhello\r\n1\r\n!\r\n000\r\n\r\n", b"hello!"),
        (b"a\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
        (b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
        (b"0000000000000005\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b'5;a=b;c="d\xe9"\r\nhello\r\n0;x\r\n\r\n', b"hello"),
        (b"2\r\n\r\n\r\n0\r\n\r\n", b"\r\n"),
        (b"5\r\n0\r\n\r\n\r\n0\r\n\r\n", b"0\r\n\r\n"),
    ],
)
def test_decodes(wire: bytes, data: bytes) -> None:
    assert decode(wire + b"GET") == (data, End(), b"GET")
    assert decode(*[wire[at : at + 1] for at in range(len(wire))]) == (data, End(), b"")


def test_hands_over_trailers() -> None:
    wire = b"1\r\nx\r\n0\r\nX-Sum: 1\r\nX-Other: 2\r\n\r\n"
    expected = (b"x", End((("x-sum", "1"), ("x-other", "2"))), b"")
    assert decode(wire) == expected
    assert decode(*[wire[at : at + 1] for at in range(len(wire))]) == expected


@pytest.mark.parametrize(
    "wire",
    [
        b"\r\n",
        b";",
        b"x",
        b"+5\r\n",
        b"-5\r\n",
        b"0x5\r\n",
        b"5h\r\n",
        b" 5\r\n",
        b"5 \r\n",
        b"5\t\r\n",
        b"5 ;a\r\n",
        b"5\n",
        b"5\rx",
        b"5\r\r\n",
        b"5;a\nb\r\n",
        b"5;a\rb\r\n",
        b"5;\x00\r\n",
        b"5;\x7f\r\n",
        b"00000000000000005\r\n",
        b"5;" + b"a" * 256,
        b"5\r\nhellox",
        b"5\r\nhello\n",
        b"5\r\nhello0\r\n",
        b"5\r\nhello\r\r\n",
        b"5\r\nhello\r\n\r\n",
        b"5\r\nhello\r\n\r\n0\r\n\r\n",
        b"5\r\nhello\r\n 0\r\n\r\n",
        b"0\r\n\n",
        b"0\r\n\rx",
        b"0\r\nA : b\r\n\r\n",
        b"0\r\n A: b\r\n\r\n",
        b"0\r\nA: b\nC: d",
        b"0\r\nHost: a\r\n\r\n",
        b"0\r\nA: \x00",
        b"0\r\nA: " + b"a" * 8192,
        b"0\r\n" + b"A: b\r\n" * 33 + b"\r\n",
    ],
)
def test_refuses_as_soon_as_the_last_byte_is_there(wire: bytes) -> None:
    for pieces in ([wire], [wire[at : at + 1] for at in range(len(wire))]):
        with pytest.raises(WireError):
            decode(*pieces)


@pytest.mark.parametrize(
    "wire",
    [
        b"",
        b"5",
        b"5;",
        b"5;a\r",
        b"5\r\nhell",
        b"5\r\nhello",
        b"5\r\nhello\r",
        b"0\r\n",
        b"0\r\n\r",
        b"0\r\nA: b\r\n",
    ],
)
def test_waits_for_what_is_still_to_come_and_is_cut_short_without_it(wire: bytes) -> None:
    body = ChunkedBody(MessageLimits(), of_request=True)
    assert body.take(wire, ignore) is None
    with pytest.raises(WireError, match="before it is complete"):
        body.close()


def test_a_server_may_send_a_forbidden_trailer_that_goes_no_further() -> None:
    assert decode(b"0\r\nSet-Cookie: a\r\nX: y\r\n\r\n", of_request=False)[1] == End((("x", "y"),))


def test_many_small_chunks_become_one_piece() -> None:
    events: list[Data | End] = []
    ChunkedBody(MessageLimits(), of_request=True).take(b"1\r\nx\r\n" * 1000, events.append)
    assert events == [Data(b"x" * 1000)]


def test_a_read_inside_a_large_chunk_is_handed_on_without_a_copy() -> None:
    body = ChunkedBody(MessageLimits(), of_request=True)
    body.take(b"FFFFFFFFFF\r\n", ignore)
    piece = bytes(70_000)
    events: list[Data | End] = []
    body.take(piece, events.append)
    assert isinstance(events[0], Data)
    assert events[0].data is piece


def test_one_extension_is_bounded() -> None:
    limits = MessageLimits(chunk_extension=4)
    assert decode(b"1;abc\r\nx\r\n0\r\n\r\n", limits=limits)[0] == b"x"
    with pytest.raises(WireError):
        decode(b"1;abcd\r\nx\r\n0\r\n\r\n", limits=limits)


def test_extensions_can_be_forbidden() -> None:
    limits = MessageLimits(chunk_extension=0)
    assert decode(b"1\r\nx\r\n0\r\n\r\n", limits=limits)[0] == b"x"
    with pytest.raises(WireError):
        decode(b"1;\r\n", limits=limits)


def test_extensions_together_are_bounded_by_their_data() -> None:
    limits = MessageLimits(chunk_extensions=10)
    paid = b"4;abc\r\ndata\r\n"
    assert decode(paid * 1000 + b"0\r\n\r\n", limits=limits)[0] == b"data" * 1000
    flood = b"1;abcdef\r\nx\r\n"
    with pytest.raises(WireError, match="outweigh"):
        decode(flood * 3, limits=limits)


def test_the_bound_on_all_extensions_is_inclusive() -> None:
    limits = MessageLimits(chunk_extensions=4)
    assert decode(b"0;abc\r\n\r\n", limits=limits)[1] == End()
    with pytest.raises(WireError, match="outweigh"):
        decode(b"0;abcd\r\n\r\n", limits=limits)


def test_a_chunk_without_extension_costs_nothing() -> None:
    assert decode(b"1\r\nx\r\n0\r\n\r\n", limits=MessageLimits(chunk_extensions=0))[0] == b"x"


def test_an_announced_chunk_pays_only_once_it_is_here() -> None:
    with pytest.raises(WireError, match="outweigh"):
        decode(b"FFFF;" + b"a" * 20 + b"\r\n", limits=MessageLimits(chunk_extensions=10))
