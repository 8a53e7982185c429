"""The ends of gRPC messages are found wherever the bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.errors import WireError
from egress.exchange import CutExchange, Response
from egress.exchange.content_coding import GrpcMessages
from egress.exchange.response import is_grpc
from tests.unit.exchange.sample import TOKEN, Outcome, running, told

GRPC = ("content-type", "application/grpc")


def enveloped(message: bytes, flag: int = 0) -> bytes:
    return bytes([flag]) + len(message).to_bytes(4, "big") + message


@given(st.lists(st.binary(max_size=20), max_size=6), st.integers(1, 30))
def test_every_cut_finds_the_same_ends(messages: list[bytes], size: int) -> None:
    data = b"".join(enveloped(message) for message in messages)
    envelopes, found, now = GrpcMessages(), [], b""
    for at in range(0, len(data), size):
        for piece, ends in envelopes.split(data[at : at + size]):
            now += piece
            if ends:
                found.append(now)
                now = b""
    assert found == [enveloped(message) for message in messages]
    assert now == b""


def test_an_unfinished_message_goes_out_as_it_comes() -> None:
    assert list(GrpcMessages().split(enveloped(b"whole") + enveloped(b"cut short")[:-1])) == [
        (enveloped(b"whole"), True),
        (enveloped(b"cut short")[:-1], False),
    ]


def test_an_empty_message_ends_where_it_begins() -> None:
    assert list(GrpcMessages().split(enveloped(b""))) == [(enveloped(b""), True)]


@pytest.mark.parametrize("flag", [1, 2, 0x80, ord("s")])
def test_only_one_byte_may_follow_a_message(flag: int) -> None:
    """Otherwise a secret could go on there, with its beginning let go already, or be compressed."""
    envelopes = GrpcMessages()
    list(envelopes.split(enveloped(b"sesa")))
    with pytest.raises(WireError):
        list(envelopes.split(bytes([flag]) + b"me"))


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        (["application/grpc"], True),
        (["application/grpc+proto"], True),
        (["Application/gRPC; charset=utf-8"], True),
        (["application/grpc-web"], False),
        (["application/grpc-web-text"], False),
        (["application/grpcx"], False),
        (["text/plain; application/grpc"], False),
        (["application/grpc", "text/plain"], False),
        ([], False),
    ],
)
def test_the_content_type_tells(kinds: list[str], found: bool) -> None:
    assert is_grpc(tuple(("content-type", kind) for kind in kinds)) is found


def pieces_of(outcome: list[bytes] | CutExchange) -> list[bytes]:
    assert not isinstance(outcome, CutExchange)
    return outcome


# In an exchange -----------------------------------------------------------------------------------


def test_the_end_of_a_message_is_not_held_back() -> None:
    """It could be the beginning of a secret; but the client may say nothing before it has seen it."""
    one = running()
    one.respond(Response(200, "OK", (GRPC,)))
    ends_like_a_secret = enveloped(b"see " + TOKEN[:9].encode())
    assert b"".join(pieces_of(one.data(ends_like_a_secret))) == ends_like_a_secret
    other = running()
    other.respond(Response(200, "OK", (("content-type", "text/plain"),)))
    assert other.data(ends_like_a_secret) == [ends_like_a_secret[:-9]]


def test_a_secret_inside_a_message_is_masked_wherever_it_is_cut() -> None:
    data = enveloped(b"<" + TOKEN.encode() + b">")
    for at in range(len(data)):
        found = told(running(), [part for part in (data[:at], data[at:]) if part], GRPC)
        assert isinstance(found, Outcome)
        assert found.body == enveloped(b"<" + b"*" * len(TOKEN) + b">")


def test_a_secret_that_goes_on_behind_a_message_is_cut_off() -> None:
    """The upstream lies about the length, so that the first part is let go; there is no second part."""
    one = running()
    one.respond(Response(200, "OK", (GRPC,)))
    shown = TOKEN[:9].encode()
    answer = one.data(enveloped(shown) + TOKEN[9:].encode())
    assert isinstance(answer, CutExchange)
    assert answer.code == "upstream.malformed"
