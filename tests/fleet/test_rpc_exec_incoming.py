"""Input that comes a piece at a time is read as it comes."""

from __future__ import annotations

import threading

from egress.fleet.rpc_exec import RpcInput


def test_a_piece_is_read_in_parts_and_taken_once() -> None:
    taken: list[int] = []
    incoming = RpcInput(lambda: taken.append(1))
    assert incoming.add(b"abc")
    assert incoming.read(2) == b"ab"
    assert taken == []
    assert incoming.read(2) == b"c"
    assert taken == [1]


def test_nothing_is_taken_in_ahead() -> None:
    incoming = RpcInput(lambda: None)
    assert incoming.add(b"a")
    assert not incoming.add(b"b")
    incoming.read(1)
    assert incoming.add(b"b")
    incoming.end()
    assert not incoming.add(b"c")
    assert incoming.read() == b"b"
    assert incoming.is_whole


def test_who_reads_waits_for_more_or_the_end() -> None:
    incoming = RpcInput(lambda: None)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(incoming.read()))
    reader.start()
    while not incoming.add(b"late"):
        pass
    incoming.break_off()
    reader.join()
    assert found == [b"late"]
    assert not incoming.is_whole
