"""Terminals that go on without their clients: who comes later, others beside it, and slow ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.fleet import Fleet
from egress.fleet import process_table as table
from egress.fleet.errors import FleetUnavailableError
from egress.runtime.errors import SandboxStateError, SpecError
from egress.runtime.spec import Command, Terminal
from egress.sandbox.aio import AsyncSandbox
from egress.sandbox.attached_terminal import AttachedTerminal
from egress.sandbox.handle import Sandbox
from tests.fleet.memory_fleet import served
from tests.unit.sandbox.fleet_of_one import fleet_of_one
from tests.unit.sandbox.local_runtime import LocalProcess, LocalRuntime

SHELL = ("sh", "-c", "stty -echo; PS1=; echo ready; exec sh")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with fleet_of_one(LocalRuntime(tmp_path)) as fleet:
        yield fleet


@pytest.fixture(params=["here", "remote"])
def box(fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    if request.param == "here":
        yield Sandbox(fleet, "one")
    else:
        with served(fleet) as remote:
            yield Sandbox(remote, "one")


def shown(viewer: Iterator[bytes], text: str) -> str:
    """Read until the text has come."""
    seen = b""
    for piece in viewer:
        seen += piece
        if text.encode() in seen:
            return seen.decode(errors="replace")
    raise AssertionError(f"{text!r} did not come: {seen!r}")


def test_a_client_comes_back_to_what_goes_on(box: Sandbox) -> None:
    process = box.start_terminal(SHELL, cols=100, rows=30)
    with process.attach(cols=100, rows=30) as terminal:
        terminal.write("A=kept; echo first\n")
        shown(terminal.read(), "first")
    (status,) = box.processes()
    assert (status.id, status.state, status.columns, status.rows) == (process.id, "running", 100, 30)
    again = box.process(process.id)
    with again.attach(cols=90, rows=20) as terminal:
        # The first piece shows what was there before.
        assert "first" in next(terminal.read()).decode()
        sized(terminal, terminal, "20 90")
        terminal.write("echo [$A]; exit 3\n")
        shown(terminal.read(), "[kept]")
        for _ in terminal.read():
            """Its end is the end of the program."""
    assert again.wait(30).exit_code == 3


def test_several_see_the_same_and_all_may_type(box: Sandbox) -> None:
    process = box.start_terminal(SHELL)
    with process.attach() as one, process.attach(cols=70) as two:
        one.write("echo from-one\n")
        shown(two.read(), "from-one")
        two.write("echo from-two\n")
        shown(one.read(), "from-two")
        # The size is that of the client that attached last, until another one asks for its own.
        sized(one, two, "24 70")
        one.resize(cols=60, rows=10)
        sized(two, one, "10 60")
        assert process.status().columns == 60
    process.kill()
    assert process.wait(30).state == "ended"


def test_a_program_that_is_drawn_on_a_whole_screen_draws_it_again(box: Sandbox) -> None:
    # As an editor does: on the second screen, and anew at each signal for a new size.
    draw = (
        "trap 'n=$((n+1)); printf drawn$n' WINCH; printf '\\033[?1049hopened'; while :; do sleep 0.05; done"
    )
    process = box.start_terminal(["bash", "-c", f"n=0; {draw}"])
    process.wait(30, log="opened")
    for _ in range(2):
        with process.attach() as terminal:
            text = shown(terminal.read(), "drawn")
            assert text.startswith("\x1b[!p\x1b[?1049h")
    process.kill(grace=0)


def test_one_that_does_not_read_holds_up_nobody_and_is_shown_the_rest(fleet: Fleet) -> None:
    process = fleet.tracked.start(
        "one", in_terminal("stty -echo; read x; seq 400000; echo all-told; read x"), 65536
    )
    slow, quick = process.attach(80, 24), process.attach(80, 24)
    next(slow)
    quick.write(b"\n")
    shown(quick, "all-told")
    text = shown(slow, "all-told")
    # It missed the middle, and was shown the terminal anew: from a line on.
    assert text.startswith("\x1b[!p") or "\x1b[!p" in text
    assert len(text) < 1_000_000
    process.forget()


def test_a_further_client_takes_the_place_of_the_first(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MAX_VIEWERS", 2)
    process = box.start_terminal(SHELL)
    viewers = [process.attach() for _ in range(2)]
    waiting: list[object] = []

    def wait() -> None:
        try:
            for _ in viewers[0].read():
                """Until another one takes its place."""
            waiting.append("end")
        except SandboxStateError as error:
            waiting.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    viewers.append(process.attach())
    thread.join(30)
    assert isinstance(waiting[0], SandboxStateError)
    viewers[1].write("echo still\n")
    shown(viewers[2].read(), "still")
    for each in viewers:
        each.close()
    process.forget()


def test_a_terminal_that_reads_nothing_takes_no_more_for_ever(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "TYPING_SECONDS", 0.1)
    process = fleet.tracked.start("one", in_terminal("stty raw -echo; echo begun; sleep 60"))
    process.wait(30, log="begun")
    flood = threading.Thread(target=lambda: process.write(b"x" * 1_000_000), daemon=True)
    flood.start()
    time.sleep(0.2)
    # Dropped, and not waited for.
    process.attach(80, 24).write(b"y")
    process.kill(0)
    assert process.wait(30).state == "ended"


def test_a_size_that_cannot_be_set_holds_up_one_thread_for_all(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime may set a size only after input that the program never reads."""
    goes_on = threading.Event()
    made: list[Terminal] = []

    def resize(_: LocalProcess, size: Terminal) -> None:
        goes_on.wait(30)
        made.append(size)

    process = fleet.tracked.start("one", in_terminal("sleep 60"))
    monkeypatch.setattr(LocalProcess, "resize", resize)
    # A thread of the test before may still be at its end.
    before = set(threading.enumerate())
    for columns in range(20, 50):
        process.attach(columns, 10).close()
    assert sum(each.name == "egress-size" for each in set(threading.enumerate()) - before) == 1
    goes_on.set()
    deadline = time.monotonic() + 30
    while made[-1:] != [Terminal(columns=49, rows=10)]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    # Those in between were replaced by the newest.
    assert len(made) == 2
    process.forget()


def test_a_process_without_a_terminal_is_followed_and_not_attached_to(box: Sandbox) -> None:
    process = box.start_process(["sleep", "60"])
    with pytest.raises(SandboxStateError):
        process.attach()
    with pytest.raises(SpecError):
        process.attach(cols=0)
    with pytest.raises(SpecError):
        box.start_terminal(cols=100_000)
    with pytest.raises(SpecError):
        box.start_terminal(["true"], keep=5)
    process.forget()


def test_a_viewer_of_what_has_ended_sees_it_and_the_end(box: Sandbox) -> None:
    process = box.start_terminal(["sh", "-c", "echo last words"])
    process.wait(30)
    with process.attach() as terminal:
        assert "last words" in b"".join(terminal.read()).decode()


def test_the_end_of_the_server_is_no_end_of_the_program(fleet: Fleet) -> None:
    with served(fleet) as remote:
        viewer = Sandbox(remote, "one").start_terminal(SHELL).attach()
        shown(viewer.read(), "ready")
    with pytest.raises(FleetUnavailableError):
        list(viewer.read())


async def test_a_task_attaches_and_detaches(fleet: Fleet) -> None:
    with served(fleet) as remote:
        process = await AsyncSandbox(Sandbox(remote, "one")).start_terminal(SHELL, cols=70)
        async with await process.attach(cols=70) as terminal:
            await terminal.write("stty size\n")
            seen = b""
            async for piece in terminal.read():
                seen += piece
                if b"24 70" in seen:
                    break
            await terminal.resize(cols=60, rows=10)
        await process.kill()


def sized(typing: AttachedTerminal, seeing: AttachedTerminal, size: str) -> None:
    """Ask for the size until it is this one: it is set beside the output."""
    for number in range(500):
        typing.write(f"stty size; echo told{number}.\n")
        if size in shown(seeing.read(), f"told{number}."):
            return
        time.sleep(0.02)
    raise AssertionError(size)


def in_terminal(line: str) -> Command:
    return Command(argv=("sh", "-c", line), terminal=Terminal())
