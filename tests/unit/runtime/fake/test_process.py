"""A process in memory, where it is not like any other: see `contract` for what it shares with them."""

from __future__ import annotations

import threading

import pytest

from egress.runtime.fake import FakeRuntime, ProgramCall
from egress.runtime.spec import Command, Spec, Terminal


def test_a_program_goes_no_further_once_it_was_ended() -> None:
    begun, may_go_on = threading.Event(), threading.Event()
    reached: list[str] = []

    def program(call: ProgramCall) -> None:
        begun.set()
        may_go_on.wait(30)
        call.write(b"never")
        reached.append("here")

    runtime = FakeRuntime(programs={"p": program})
    runtime.create(Spec(name="one", image="any"))
    runtime.start("one")
    process = runtime.spawn("one", Command(argv=("p",)))
    assert begun.wait(30)
    process.resize(Terminal())
    process.kill()
    may_go_on.set()
    result = process.wait(30)
    assert (result.exit_code, result.stdout_bytes, reached) == (143, b"", [])


def test_a_program_that_waits_for_input_is_ended_too() -> None:
    runtime = FakeRuntime()
    runtime.create(Spec(name="one", image="any"))
    runtime.start("one")
    process = runtime.spawn("one", Command(argv=("cat",)))
    with pytest.raises(TimeoutError):
        process.wait(0.01)
    process.kill()
    assert process.wait(30).exit_code == 143
