"""Frames and sockets over a pair of sockets, and what happens when one side goes."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from egress.fleet.errors import FleetProtocolError
from egress.fleet.rpc_channel import ChannelLostError, RpcChannel
from egress.fleet.rpc_frames import FrameKind, RpcFrame, encode, make_head


def pair() -> tuple[RpcChannel, socket.socket]:
    ours, theirs = socket.socketpair()
    return RpcChannel(ours), theirs


def test_frames_come_one_by_one_and_then_the_end() -> None:
    link, there = pair()
    with link, there:
        there.sendall(encode(make_head(a=1)) + encode(RpcFrame(FrameKind.OUTPUT, b"x")))
        there.shutdown(socket.SHUT_WR)
        assert link.receive() == make_head(a=1)
        assert link.receive() == RpcFrame(FrameKind.OUTPUT, b"x")
        assert link.receive() is None


def test_an_end_inside_a_frame_is_no_end() -> None:
    link, there = pair()
    with link, there:
        there.sendall(encode(RpcFrame(FrameKind.OUTPUT, b"xyz"))[:-1])
        there.shutdown(socket.SHUT_WR)
        with pytest.raises(FleetProtocolError):
            link.receive()


def test_a_socket_comes_with_its_frame() -> None:
    link, there = pair()
    ours, theirs = socket.socketpair()
    with link, RpcChannel(there) as other, ours, theirs:
        other.send(make_head(done={}), sock=theirs)
        assert link.receive() == make_head(done={})
        with link.socket() as sock:
            assert not os.get_inheritable(sock.fileno())
            sock.sendall(b"hello")
            assert ours.recv(10) == b"hello"
        with pytest.raises(FleetProtocolError):
            link.socket()


@pytest.mark.parametrize("count", [2, 5])
def test_more_than_one_socket_is_refused_and_none_is_left_open(count: int) -> None:
    link, there = pair()
    with link, there, socket.socket() as sock:
        before = len(list(Path("/proc/self/fd").iterdir()))
        socket.send_fds(there, [encode(make_head(a=1))], [sock.fileno()] * count)
        with pytest.raises(FleetProtocolError):
            link.receive()
        link.close()
        assert len(list(Path("/proc/self/fd").iterdir())) == before - 1


def test_what_cannot_be_sent_is_told() -> None:
    link, there = pair()
    there.close()
    with link, pytest.raises(ChannelLostError):
        link.send(make_head(a=1))
