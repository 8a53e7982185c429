"""Messages with descriptors."""

from __future__ import annotations

import os
import socket

import pytest

from egress.runtime.namespace.inside import messages


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def test_descriptors_come_with_their_message_and_no_program_inherits_them() -> None:
    ours, theirs = pair()
    with ours, theirs:
        socket.send_fds(theirs, [b"one"], [0, 1])
        message, found = messages.receive(ours, 4)
        assert (message, len(found)) == (b"one", 2)
        assert not any(os.get_inheritable(each) for each in found)
        for each in found:
            os.close(each)


def test_a_line_that_was_hung_up_says_nothing() -> None:
    ours, theirs = pair()
    with ours:
        theirs.close()
        assert messages.receive(ours, 4) == (b"", [])


def test_more_than_was_wanted_is_refused_and_nothing_stays_open() -> None:
    ours, theirs = pair()
    with ours, theirs:
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        socket.send_fds(theirs, [b"many"], [0] * 40)
        with pytest.raises(OSError, match="in part"):
            messages.receive(ours, 2)
        theirs.send(b"x" * (messages.MAX_MESSAGE_BYTES + 1))
        with pytest.raises(OSError, match="in part"):
            messages.receive(ours, 2)
        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
