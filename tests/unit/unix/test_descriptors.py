"""Descriptors come with their message, or the message is refused and nothing stays open."""

from __future__ import annotations

import array
import os
import socket
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as some

from egress.unix.descriptors import TruncatedError, receive


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def test_descriptors_come_with_their_message_and_no_program_inherits_them() -> None:
    ours, theirs = pair()
    with ours, theirs:
        socket.send_fds(theirs, [b"one"], [0, 1])
        message, found = receive(ours, 4096, 4)
        assert (message, len(found)) == (b"one", 2)
        assert not any(os.get_inheritable(each) for each in found)
        for each in found:
            os.close(each)


def test_a_line_that_was_hung_up_says_nothing() -> None:
    ours, theirs = pair()
    with ours:
        theirs.close()
        assert receive(ours, 4096, 4) == (b"", [])


def test_more_than_was_wanted_is_refused_and_nothing_stays_open() -> None:
    ours, theirs = pair()
    with ours, theirs:
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        socket.send_fds(theirs, [b"many"], [0] * 40)
        with pytest.raises(TruncatedError, match="in part"):
            receive(ours, 4096, 2)
        theirs.send(b"x" * 4097)
        with pytest.raises(TruncatedError, match="in part"):
            receive(ours, 4096, 2)
        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
@pytest.mark.parametrize("limit", [0, 1, 2, 3])
def test_exactly_as_many_descriptors_are_taken_as_there_may_be(kind: int, limit: int) -> None:
    """Ancillary data is aligned, so that a room for one descriptor could hold two."""
    for count in range(1, 6):
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        with ours, theirs:
            before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
            socket.send_fds(theirs, [b"some"], [0] * count)
            if count <= limit:
                message, found = receive(ours, 4096, limit)
                assert (message, len(found)) == (b"some", count)
                for each in found:
                    os.close(each)
            else:
                with pytest.raises(TruncatedError):
                    receive(ours, 4096, limit)
            assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_the_last_message_of_a_peer_is_read_that_left_one_of_ours_unread() -> None:
    ours, theirs = pair()
    with ours:
        ours.send(b"never read")
        theirs.send(b"last words")
        theirs.close()
        assert receive(ours, 4096, 1) == (b"last words", [])
        assert receive(ours, 4096, 1) == (b"", [])


@given(some.lists(some.tuples(some.binary(min_size=1, max_size=64), some.integers(0, 6)), max_size=6))
def test_no_descriptor_is_left_open_whatever_comes(messages: list[tuple[bytes, int]]) -> None:
    ours, theirs = pair()
    with ours, theirs:
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        for data, count in messages:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * count))] if count else []
            theirs.sendmsg([data], rights)
        for data, count in messages:
            with suppress(TruncatedError):
                message, found = receive(ours, 32, 3)
                assert len(data) <= 32
                assert count <= 3
                assert (message, len(found)) == (data, count)
                for each in found:
                    assert not os.get_inheritable(each)
                    os.close(each)
        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
