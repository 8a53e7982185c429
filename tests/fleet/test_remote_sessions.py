"""Sessions of a fleet in another process: the same calls and the same results as in this one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.fleet import Fleet, RemoteRuntime
from egress.fleet.errors import FleetUnavailableError, SessionDiffersError, SessionNotFoundError
from egress.fleet.session_interface import ShellSettings
from egress.runtime.errors import SpecError
from egress.sandbox.aio import AsyncSandbox
from egress.sandbox.errors import LateCommandError, SessionClosedError
from egress.sandbox.handle import Sandbox
from tests.fleet.memory_fleet import served
from tests.unit.sandbox.contract import CASES, Case
from tests.unit.sandbox.fleet_of_one import fleet_of_one
from tests.unit.sandbox.local_runtime import LocalRuntime


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with fleet_of_one(LocalRuntime(tmp_path)) as fleet:
        yield fleet


@pytest.fixture
def remote(fleet: Fleet) -> Iterator[RemoteRuntime]:
    with served(fleet) as remote:
        yield remote


@pytest.mark.parametrize("promise", CASES["session"], ids=lambda case: case.__name__)
def test_a_promise_is_kept(promise: Case, remote: RemoteRuntime) -> None:
    promise(Sandbox(remote, "one"))


def test_another_program_goes_on_where_one_left(fleet: Fleet) -> None:
    with served(fleet) as remote:
        session = Sandbox(remote, "one").session("build", env={"A": "1"})
        session.exec("cd /tmp; B=2")
        assert session.id == "build"
    with served(fleet) as remote:
        box = Sandbox(remote, "one")
        assert [(each.id, each.state) for each in box.sessions()] == [("build", "idle")]
        assert box.session("build").exec("echo $A$B; pwd").text == "12\n/tmp\n"
        with pytest.raises(SessionDiffersError):
            box.session("build", env={"A": "2"})
        # The owner of the fleet has the same one.
        assert Sandbox(fleet, "one").session("build").status() == box.session("build").status()
        Sandbox(fleet, "one").session("build").close()
        with pytest.raises(SessionNotFoundError):
            remote.sessions.get("one", "build")


def test_a_session_that_another_program_ended_says_so(remote: RemoteRuntime) -> None:
    box = Sandbox(remote, "one")
    mine, other = box.session("build"), box.session("build")
    other.close()
    with pytest.raises(SessionNotFoundError):
        mine.exec("true")
    with pytest.raises(SessionClosedError):
        other.exec("true")
    mine.close()


def test_much_output_comes_whole_and_in_pieces(remote: RemoteRuntime) -> None:
    box = Sandbox(remote, "one")
    seen: list[bytes] = []
    with box.session() as session:
        result = session.exec(
            "head -c 3000000 /dev/urandom | tee copy", text=False, on_stdout=seen.append, timeout=60
        )
        assert b"".join(seen) == result.stdout_bytes == box.files.read("copy")
        assert not result.truncated
        with pytest.raises(LateCommandError):
            session.exec("sleep 60", timeout=0.2, check=True)


def test_impossible_values_are_the_errors_of_this_process(remote: RemoteRuntime) -> None:
    for wrong in ("a/b", "", "a b"):
        with pytest.raises(SpecError):
            remote.sessions.open("one", wrong, ShellSettings())
    with pytest.raises(SpecError):
        Sandbox(remote, "one").session(shell=5)  # type: ignore[arg-type]
    with pytest.raises(SpecError):
        Sandbox(remote, "one").session().exec("true", timeout=-1)


async def test_a_cancelled_task_ends_its_command_and_not_the_session(remote: RemoteRuntime) -> None:
    session = await AsyncSandbox(Sandbox(remote, "one")).session("work")
    await session.exec("true")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(session.exec("A=1; sleep 63"), 1)
    assert (await session.exec("echo $A")).text == "1\n"
    assert (await session.status()).id == session.id
    (listed,) = await AsyncSandbox(Sandbox(remote, "one")).sessions()
    assert listed.sandbox == "one"
    await session.close()


def test_the_end_of_the_server_is_no_end_of_a_command(fleet: Fleet) -> None:
    with served(fleet) as remote:
        command = None
        Sandbox(remote, "one").session("work")
        command = remote.sessions.begin("one", "work", "sleep 60")
    with pytest.raises(FleetUnavailableError):
        command.wait()
