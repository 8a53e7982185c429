"""A process that was found again: what is asked of it, and how a cancelled task leaves it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from egress.fleet import Fleet
from egress.fleet.errors import ProcessNotFoundError
from egress.runtime.errors import SandboxTimeoutError, SpecError, UnsupportedError
from egress.runtime.fake import FakeRuntime, ProgramCall
from egress.sandbox.aio import AsyncSandbox
from egress.sandbox.handle import Sandbox
from tests.unit.sandbox.fleet_of_one import fleet_of_one


def greet(call: ProgramCall) -> None:
    call.write(b"ready\n")
    call.write(call.read())


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with fleet_of_one(FakeRuntime(programs={"greet": greet})) as fleet:
        yield fleet


def test_a_second_handle_finds_what_the_first_started(fleet: Fleet) -> None:
    started = Sandbox(fleet, "one").start_process(["greet"], stdin=True)
    (status,) = Sandbox(fleet, "one").processes()
    process = Sandbox(fleet, "one").process(status.id)
    assert repr(process) == f"<FoundProcess {started.id}>"
    assert process.wait(30, log="ready").state == "running"
    process.write("hello")
    process.close_stdin()
    assert b"".join(piece.data for piece in process.follow(offset=6)) == b"hello"
    assert process.wait(30).exit_code == 0
    assert process.status().state == "ended"
    assert process.read(offset=6).data == b"hello"
    process.forget()
    with pytest.raises(ProcessNotFoundError):
        Sandbox(fleet, "one").process(started.id)


def test_it_is_ended_by_its_id(fleet: Fleet) -> None:
    process = Sandbox(fleet, "one").start_process(["sleep", "infinity"])
    with pytest.raises(SpecError):
        process.kill("NONE")
    process.kill()
    assert process.wait(30).state == "ended"
    # It has ended: the signal goes nowhere.
    process.kill("HUP")


def test_a_runtime_alone_finds_nothing() -> None:
    sandbox = Sandbox(FakeRuntime(), "one")
    for call in (sandbox.processes, lambda: sandbox.process("x"), lambda: sandbox.start_process("true")):
        with pytest.raises(UnsupportedError):
            call()


async def test_a_cancelled_task_leaves_the_process(fleet: Fleet) -> None:
    sandbox = AsyncSandbox(Sandbox(fleet, "one"))
    process = await sandbox.start_process(["greet"], stdin=True)
    pieces = process.follow()
    assert (await anext(pieces)).data == b"ready\n"
    for task in (asyncio.ensure_future(anext(pieces)), asyncio.ensure_future(process.wait())):
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    with pytest.raises(SandboxTimeoutError):
        await process.wait(0)
    assert (await (await sandbox.process(process.id)).status()).state == "running"
    assert [each.id for each in await sandbox.processes()] == [process.id]
