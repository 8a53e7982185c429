"""A WebSocket from the client's side, against servers of every kind."""

from __future__ import annotations

import threading

import pytest
from wsproto.events import BytesMessage, Ping, TextMessage

from egress.api.schema import MAX_MESSAGE_BYTES
from egress.api.websocket_client import WebSocketLostError
from tests.api.websocket_peer import Peer, opened, pair


def test_a_message_arrives_whole_however_it_was_cut() -> None:
    with opened() as (client, peer):
        peer.send(TextMessage("a", message_finished=False), Ping(b"p"), TextMessage("b"))
        peer.send(BytesMessage(b"c", message_finished=False), BytesMessage(b"d"))
        assert (client.receive(), client.receive()) == ("ab", b"cd")
        assert pong_of(peer) == b"p"


def pong_of(peer: Peer) -> bytes:
    """The payload of the pong that the client has sent."""
    data = peer.sock.recv(100)
    mask, body = data[2:6], data[6:]
    return bytes(byte ^ mask[place % 4] for place, byte in enumerate(body))


def test_a_message_that_is_too_long_ends_the_connection() -> None:
    with opened() as (client, peer):
        sending = threading.Thread(target=send_too_much, args=(peer,))
        sending.start()
        with pytest.raises(WebSocketLostError, match="too long"):
            client.receive()
        client.end()
        sending.join(30)


def send_too_much(peer: Peer) -> None:
    try:
        peer.send(BytesMessage(b"x" * (MAX_MESSAGE_BYTES + 1)))
    except OSError:
        return


@pytest.mark.parametrize("data", [b"\xff\xff" * 10, b"\x81\x81abcde", b"\x83\x00"], ids=range(3))
def test_a_server_that_breaks_the_protocol_is_one_that_has_closed(data: bytes) -> None:
    with opened() as (client, peer):
        peer.sock.sendall(data)
        assert client.receive() is None


def test_a_refusal_is_returned_with_its_body() -> None:
    with pair() as (client, peer):
        peer.sock.sendall(b"HTTP/1.1 409 Conflict\r\nContent-Length: 4\r\n\r\nbusy")
        assert client.shake_hands() == (409, b"busy")


def test_a_server_that_hangs_up_is_a_lost_connection() -> None:
    with pair() as (client, peer):
        peer.sock.close()
        with pytest.raises(WebSocketLostError):
            client.shake_hands()
        with pytest.raises(WebSocketLostError):
            client.send_bytes(b"x")
