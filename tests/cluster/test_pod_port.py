"""A port of a pod, as a socket of this process."""

from __future__ import annotations

import socket

import pytest

from egress.api.websocket_as_socket import pair_with
from egress.api.websocket_client import WebSocketLostError
from egress.cluster.pod_port import PodPort, open_port
from tests.cluster.fake_stream_server import StreamPeer, played

PORT = 8000
NAME = PORT.to_bytes(2, "little")


def echo(peer: StreamPeer) -> None:
    peer.send(b"\0" + NAME, b"\1" + NAME)
    while message := peer.take():
        peer.send(message)


def connected(port: PodPort) -> socket.socket:
    sock = pair_with(port, port.close)
    sock.settimeout(10)
    return sock


def test_bytes_go_both_ways_until_one_side_ends() -> None:
    with played(echo) as (api, peers), connected(open_port(api, "one", PORT)) as sock:
        sock.sendall(b"hello" * 20_000)
        left = 100_000
        while left:
            left -= len(sock.recv(65536))
        sock.close()
    assert peers[0].request is not None
    assert peers[0].request.target == "/api/v1/namespaces/agents/pods/one/portforward?ports=8000"
    assert peers[0].request.subprotocols == ["v4.channel.k8s.io"]


def test_what_the_kubelet_says_of_an_error_ends_the_connection() -> None:
    def play(peer: StreamPeer) -> None:
        peer.send(b"\0" + NAME, b"\0last", b"\1" + NAME, b"\1connection refused")
        peer.take()

    with played(play) as (api, _), connected(open_port(api, "one", PORT)) as sock:
        assert sock.recv(100) == b"last"
        assert sock.recv(100) == b""


@pytest.mark.parametrize("message", [b"\0\1\2x", b"\2" + NAME, b"\0"])
def test_bytes_of_another_port_are_never_passed_on(message: bytes) -> None:
    def play(peer: StreamPeer) -> None:
        peer.send(message)
        peer.take()

    with played(play) as (api, _):
        port = open_port(api, "one", PORT)
        with pytest.raises(WebSocketLostError):
            port.receive()
        port.close()
