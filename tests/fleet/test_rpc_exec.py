"""A command of another process: what is said while it runs, and in which order it is answered."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from egress.fleet import rpc_codec
from egress.fleet.errors import FleetProtocolError
from egress.fleet.json_fields import JsonFields
from egress.fleet.rpc_channel import RpcChannel
from egress.fleet.rpc_exec import serve_exec
from egress.fleet.rpc_frames import FrameKind, RpcFrame, make_head
from egress.runtime.fake import ProgramCall
from egress.runtime.spec import Command
from tests.fleet.memory_fleet import MemoryFleet, PortMemoryRuntime, spec


@pytest.fixture
def estate() -> Iterator[MemoryFleet]:
    estate = MemoryFleet(PortMemoryRuntime({"greet": greet}))
    estate.fleet.create(spec())
    estate.fleet.start("one")
    yield estate
    estate.fleet.close()


def greet(call: ProgramCall) -> int:
    call.write(b"hello")
    return 3


@contextmanager
def attended(
    estate: MemoryFleet, *words: str, mode: str = "open", foreground: bool = False
) -> Iterator[RpcChannel]:
    """The client's side of a command."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(20)
    fields = {
        "name": "one",
        "foreground": foreground,
        "input": mode,
        "command": rpc_codec.write_command(Command(argv=words)),
    }
    failures: list[BaseException] = []

    def run() -> None:
        with RpcChannel(ours) as link:
            try:
                serve_exec(estate.fleet, link, JsonFields(fields))
            except FleetProtocolError as error:
                failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    with RpcChannel(theirs) as link:
        yield link
    thread.join()


def frames(link: RpcChannel) -> list[RpcFrame]:
    found = []
    while (frame := link.receive()) is not None:
        found.append(frame)
    return found


def test_the_answer_comes_first_and_the_result_last(estate: MemoryFleet) -> None:
    with attended(estate, "greet", mode="none") as link:
        first, second, last = frames(link)
    assert "done" in first.head
    assert second == RpcFrame(FrameKind.OUTPUT, b"hello")
    assert last.head == {"result": {"exit_code": 3, "duration": 0.0, "timed_out": False}}


def test_each_piece_of_input_is_said_to_be_taken(estate: MemoryFleet) -> None:
    with attended(estate, "cat") as link:
        assert link.receive() is not None
        for _ in range(2):
            link.send(RpcFrame(FrameKind.INPUT, b"abc"))
            assert link.receive() == RpcFrame(FrameKind.TAKEN)
        link.send(RpcFrame(FrameKind.END))
        output, last = frames(link)
    assert output == RpcFrame(FrameKind.OUTPUT, b"abcabc")
    assert "result" in last.head


def test_a_word_is_heard_while_it_runs(estate: MemoryFleet) -> None:
    with attended(estate, "sleep", "infinity") as link:
        link.receive()
        link.send(make_head(say="resize", terminal={"columns": 10, "rows": 10}))
        link.send(make_head(say="kill", grace=0.5))
        (last,) = frames(link)
    assert last.head["result"] == {"exit_code": 143, "duration": 0.0, "timed_out": False}


@pytest.mark.parametrize(
    "wrong",
    [
        make_head(say="dance"),
        RpcFrame(FrameKind.INPUT),
        RpcFrame(FrameKind.OUTPUT, b"x"),
        make_head(say="kill"),
    ],
)
def test_what_is_none_of_its_words_ends_the_conversation(estate: MemoryFleet, wrong: RpcFrame) -> None:
    with attended(estate, "sleep", "infinity", foreground=True) as link:
        link.receive()
        link.send(wrong)
        assert frames(link) == []
    (running,) = estate.fleet._members["one"].running
    assert running.wait(30).exit_code == 143


def test_in_the_background_it_goes_on_without_anybody(estate: MemoryFleet) -> None:
    with attended(estate, "sleep", "infinity") as link:
        link.receive()
    (running,) = estate.fleet._members["one"].running
    with pytest.raises(TimeoutError):
        running.wait(0.05)
