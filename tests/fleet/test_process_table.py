"""Processes are found by their ids, their output by its offsets, and nothing of it grows without a bound."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator

import pytest

from egress.fleet.errors import ProcessEndedError, ProcessNotFoundError
from egress.fleet.process_interface import ProcessStatus
from egress.fleet.process_table import MAX_ENDED, MAX_KEPT_BYTES, MAX_RUNNING, TableProcess
from egress.runtime.errors import (
    SandboxDiedError,
    SandboxNotFoundError,
    SandboxStateError,
    SandboxTimeoutError,
    SpecError,
)
from egress.runtime.fake import ProgramCall
from egress.runtime.spec import Command, Terminal
from tests.fleet.memory_fleet import MemoryFleet, PortMemoryRuntime, spec

FOREVER = ("sleep", "infinity")


def greet(call: ProgramCall) -> None:
    """Print each piece of input, as soon as all of it is there, between two words."""
    call.write(b"ready\n")
    call.write(call.read())
    call.complain(b"done\n")


def fail(call: ProgramCall) -> int:
    call.write(b"no")
    return 3


@pytest.fixture
def estate() -> Iterator[MemoryFleet]:
    made = MemoryFleet(PortMemoryRuntime({"greet": greet, "fail": fail}))
    made.fleet.create(spec())
    made.fleet.start("one")
    yield made
    made.fleet.close()


def begun(estate: MemoryFleet, *argv: str, keep: int = 1000, stdin: bool = False) -> TableProcess:
    command = Command(argv=argv, input=None if stdin else b"")
    return estate.fleet.tracked.start("one", command, keep)


def ended(process: TableProcess) -> ProcessStatus:
    return process.wait(30)


def test_a_process_is_found_by_an_id_of_its_own(estate: MemoryFleet) -> None:
    first, second = begun(estate, *FOREVER), begun(estate, "fail")
    assert first.id != second.id
    assert ended(second).exit_code == 3
    assert [(each.id, each.state) for each in estate.fleet.tracked.all("one")] == [
        (first.id, "running"),
        (second.id, "ended"),
    ]
    assert estate.fleet.tracked.get("one", first.id) is first
    assert first.id in repr(first)


def test_an_id_is_of_one_sandbox(estate: MemoryFleet) -> None:
    process = begun(estate, *FOREVER)
    estate.fleet.create(spec("two"))
    for name, wanted in (("two", process.id), ("one", "0" * 16), ("three", process.id)):
        with pytest.raises(ProcessNotFoundError):
            estate.fleet.tracked.get(name, wanted)
    with pytest.raises(SandboxNotFoundError):
        estate.fleet.tracked.all("three")


def test_output_has_offsets_and_the_newest_is_kept(estate: MemoryFleet) -> None:
    process = begun(estate, "echo", "0123456789", keep=4)
    ended(process)
    piece = process.read("stdout", 2)
    assert (piece.offset, piece.data, piece.first, piece.next) == (7, b"789\n", 7, 11)
    assert process.read("stdout", 11).data == b""
    for wrong in (12, -1):
        with pytest.raises(SpecError):
            process.read("stdout", wrong)


def test_a_follower_continues_from_an_offset_to_the_end(estate: MemoryFleet) -> None:
    process = begun(estate, "greet", stdin=True)
    first = next(process.follow())
    assert first.data == b"ready\n"
    process.write(b"hello")
    process.close_input()
    assert b"".join(each.data for each in process.follow("stdout", first.next)) == b"hello"
    assert b"".join(each.data for each in process.follow("stderr")) == b"done\n"


def test_a_follower_that_fell_behind_sees_the_gap(estate: MemoryFleet) -> None:
    process = begun(estate, "echo", "0123456789", keep=4)
    follower = process.follow()
    ended(process)
    assert [each.offset for each in follower] == [7]


def test_a_follower_leaves_while_nothing_comes(estate: MemoryFleet) -> None:
    process = begun(estate, *FOREVER)
    follower = process.follow()
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.extend(follower))
    thread.start()
    follower.close()
    thread.join(30)
    assert not thread.is_alive()
    assert found == []


def test_followers_cost_no_thread(estate: MemoryFleet) -> None:
    process = begun(estate, *FOREVER)
    woken: list[int] = []
    before = threading.active_count()
    watches = [process.watch(lambda: woken.append(1)) for _ in range(1000)]
    for each in watches:
        each.__enter__()
    assert threading.active_count() == before
    process.kill()
    ended(process)
    for each in watches:
        each.__exit__(None, None, None)
    assert len(woken) >= 1


def test_only_so_many_run_in_a_sandbox(estate: MemoryFleet) -> None:
    running = [begun(estate, *FOREVER) for _ in range(MAX_RUNNING)]
    with pytest.raises(SandboxStateError):
        begun(estate, *FOREVER)
    running[0].kill()
    ended(running[0])
    begun(estate, *FOREVER)


def test_only_the_last_that_ended_are_kept(estate: MemoryFleet) -> None:
    stays, ends_late = begun(estate, *FOREVER), begun(estate, *FOREVER)
    others = [begun(estate, "true") for _ in range(MAX_ENDED + 3)]
    for each in others:
        ended(each)
    ends_late.kill()
    ended(ends_late)
    kept = {each.id for each in estate.fleet.tracked.all("one")}
    # By their ends: one that was started first is there long enough to be asked for its status.
    assert {stays.id, ends_late.id} <= kept
    assert len(kept) == 1 + MAX_ENDED


def test_the_end_of_the_sandbox_ends_followers_and_forgets(estate: MemoryFleet) -> None:
    process = begun(estate, *FOREVER)
    follower = process.follow()
    thread = threading.Thread(target=lambda: list(follower))
    thread.start()
    estate.fleet.remove("one")
    thread.join(30)
    assert not thread.is_alive()
    assert process.status().state == "lost"
    estate.fleet.create(spec())
    assert estate.fleet.tracked.all("one") == ()


def test_a_stop_loses_the_process_and_keeps_its_output(estate: MemoryFleet) -> None:
    process = begun(estate, "greet", stdin=True)
    process.wait(30, log="ready")
    estate.fleet.stop("one")
    assert ended(process).state == "lost"
    assert process.status().exit_code is None
    assert estate.fleet.tracked.get("one", process.id).read().data == b"ready\n"


def test_a_sandbox_that_is_removed_during_a_start_has_no_process(
    estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn = estate.fleet.spawn

    def slow(*arguments: object) -> object:
        made = spawn(*arguments)  # type: ignore[arg-type]
        estate.fleet.tracked.forget("one")
        return made

    monkeypatch.setattr(estate.fleet, "spawn", slow)
    with pytest.raises(SandboxNotFoundError):
        begun(estate, *FOREVER)
    assert estate.fleet.tracked.all("one") == ()


def test_a_failed_start_leaves_nothing(estate: MemoryFleet) -> None:
    estate.fleet.stop("one")
    with pytest.raises(SandboxDiedError):
        begun(estate, "true")
    assert estate.fleet.tracked.all("one") == ()


def test_input_that_nobody_takes_is_refused(estate: MemoryFleet) -> None:
    for process in (begun(estate, *FOREVER), begun(estate, "greet", stdin=True)):
        process.close_input()
        with pytest.raises(SandboxStateError):
            process.write(b"x")


def test_a_second_writer_is_refused_while_the_first_waits(
    estate: MemoryFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = begun(estate, "greet", stdin=True)
    is_writing, may_return = threading.Event(), threading.Event()

    def blocked(_: bytes) -> None:
        is_writing.set()
        may_return.wait(30)

    monkeypatch.setattr(process._running, "write", blocked)
    thread = threading.Thread(target=process.write, args=(b"x",))
    thread.start()
    is_writing.wait(30)
    with pytest.raises(SandboxStateError, match="another client"):
        process.write(b"y")
    may_return.set()
    thread.join(30)


def test_a_wait_is_for_a_text_as_it_is(estate: MemoryFleet) -> None:
    process = begun(estate, "greet", stdin=True)
    assert process.wait(30, log="dy\n").state == "running"
    process.write(b"a.c")
    process.close_input()
    # Over the border of two pieces, and no pattern.
    assert process.wait(30, log="\na.c").id == process.id
    assert process.wait(30, log="done").id == process.id
    with pytest.raises(ProcessEndedError):
        process.wait(30, log="abc")


def test_a_wait_is_for_a_port(estate: MemoryFleet) -> None:
    process = begun(estate, *FOREVER)
    with pytest.raises(SandboxTimeoutError):
        process.wait(0, port=8000)
    process.kill()
    with pytest.raises(ProcessEndedError):
        process.wait(30, port=8000)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda process: process.wait(1, log="x", port=80),
        lambda process: process.wait(1, port=0),
        lambda process: process.wait(1, log="x" * 5000),
        lambda process: process.signal("NONE"),
    ],
    ids=["text and port", "port", "long text", "signal"],
)
def test_an_impossible_wish_is_refused(estate: MemoryFleet, wrong: Callable[[TableProcess], object]) -> None:
    with pytest.raises(SpecError):
        wrong(begun(estate, *FOREVER))


def test_an_impossible_start_is_refused(estate: MemoryFleet) -> None:
    tracked = estate.fleet.tracked
    for keep in (-1, MAX_KEPT_BYTES + 1):
        with pytest.raises(SpecError):
            tracked.start("one", Command(argv=("true",)), keep)
    with pytest.raises(SpecError):
        tracked.start("one", Command(argv=("true",), terminal=Terminal()), 5)
    with pytest.raises(SpecError):
        tracked.start("one", Command(argv=("true",), input=io.BytesIO()))


def test_a_forgotten_process_is_ended(estate: MemoryFleet) -> None:
    process = begun(estate, *FOREVER)
    process.forget()
    assert process.status().state != "running"
    with pytest.raises(ProcessNotFoundError):
        estate.fleet.tracked.get("one", process.id)
