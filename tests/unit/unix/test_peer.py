"""The kernel says who is at the other end."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from egress.unix import peer
from egress.unix.peer import Peer, is_own_user, peer_of


def test_the_other_end_is_known_by_process_and_user() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_of(ours) == Peer(os.getpid(), os.geteuid())
        assert is_own_user(ours)


@pytest.mark.parametrize(("uid", "is_own"), [(0, True), (1000, True), (1001, False), (2**32 - 1, False)])
def test_only_our_user_and_root_are_ours(uid: int, is_own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(peer, "peer_of", lambda _: Peer(1, uid))
    with socket.socket(socket.AF_UNIX) as sock:
        assert is_own_user(sock) is is_own


def test_a_user_number_is_never_negative() -> None:
    packed = (2**32 - 2).to_bytes(4, sys.byteorder)
    assert peer._CREDENTIALS.unpack(bytes(4) + packed + bytes(4))[1] == 2**32 - 2
