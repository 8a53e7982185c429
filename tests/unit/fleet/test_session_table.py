"""Sessions by their ids: who waits for whom, what ends one, and how many there may be."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.fleet import Fleet
from egress.fleet import session_table as table
from egress.fleet.errors import SessionBusyError, SessionDiffersError, SessionNotFoundError
from egress.fleet.session_interface import SessionResult, ShellSettings
from egress.runtime.errors import SandboxDiedError, SandboxNotFoundError, SandboxStateError, SpecError
from egress.runtime.protocol import Output
from egress.runtime.spec import Command, Spec
from tests.unit.sandbox.fleet_of_one import fleet_of_one
from tests.unit.sandbox.local_runtime import LocalProcess, LocalRuntime

PLAIN = ShellSettings()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with fleet_of_one(LocalRuntime(tmp_path)) as fleet:
        yield fleet


def run(fleet: Fleet, line: str, session: str = "work", timeout: float | None = 30) -> SessionResult:
    return fleet.sessions.begin("one", session, line, timeout=timeout).wait()


class Waiting:
    """A command in a thread of its own, and how it ended."""

    def __init__(self, fleet: Fleet, line: str, timeout: float | None = None) -> None:
        self.began = threading.Event()
        output = Output(stdout=lambda _: self.began.set())
        self.command = fleet.sessions.begin("one", "work", line, timeout=timeout, output=output)
        self.came: list[SessionResult | Exception] = []
        self.thread = threading.Thread(target=self._wait)
        self.thread.start()

    def _wait(self) -> None:
        try:
            self.came.append(self.command.wait())
        except Exception as error:  # noqa: BLE001 - looked at by the test
            self.came.append(error)

    def end(self) -> SessionResult | Exception:
        self.thread.join(30)
        (came,) = self.came
        return came


def test_a_session_is_found_with_its_state(fleet: Fleet) -> None:
    assert fleet.sessions.all("one") == ()
    made = fleet.sessions.open("one", "work", ShellSettings(cwd="/", env={"A": "1"}))
    assert run(fleet, "cd /tmp; B=2").exit_code == 0
    # Settings that are left out are those of the session.
    assert fleet.sessions.open("one", "work", PLAIN) == made == fleet.sessions.get("one", "work")
    assert run(fleet, "echo $A$B; pwd").text == "12\n/tmp\n"
    assert [each.id for each in fleet.sessions.all("one")] == ["work"]
    assert (made.state, made.cwd, made.sandbox) == ("idle", "/", "one")


def test_other_settings_are_refused_without_their_values(fleet: Fleet) -> None:
    fleet.sessions.open("one", "work", ShellSettings(cwd="/", env={"A": "made-up"}))
    with pytest.raises(SessionDiffersError) as refused:
        fleet.sessions.open("one", "work", ShellSettings(cwd="/tmp", env={"A": "other"}))
    assert "cwd, env" in refused.value.message
    assert "other" not in refused.value.message.replace("other settings", "")


@pytest.mark.parametrize("odd", ["", "a/b", "../x", "a b", "ü", "-a", ".", "a\n", "a" * 65, "a\0", 5])
def test_an_id_is_a_name(fleet: Fleet, odd: str) -> None:
    with pytest.raises(SpecError):
        fleet.sessions.open("one", odd, PLAIN)
    assert fleet.sessions.all("one") == ()


@pytest.mark.parametrize("name", ["a", "Agent_7", "0.1-x", "a" * 64])
def test_a_name_is_an_id(fleet: Fleet, name: str) -> None:
    assert fleet.sessions.open("one", name, PLAIN).id == name


def test_commands_run_one_at_a_time_and_in_their_order(fleet: Fleet) -> None:
    fleet.sessions.open("one", "work", PLAIN)
    commands = [Waiting(fleet, f"echo {number} >>order; sleep 0.05") for number in range(8)]
    for each in commands:
        assert isinstance(each.end(), SessionResult)
    assert run(fleet, "tr -d '\\n' <order").text == "01234567"


def test_a_waiting_command_is_withdrawn_and_a_running_one_ended(fleet: Fleet) -> None:
    fleet.sessions.open("one", "work", PLAIN)
    running = Waiting(fleet, "kept=1; echo begun; sleep 60")
    waiting = Waiting(fleet, "echo never >wrong")
    last = Waiting(fleet, "echo kept=$kept")
    assert running.began.wait(30)
    assert fleet.sessions.get("one", "work").state == "busy"
    waiting.command.kill()
    assert isinstance(waiting.end(), SessionBusyError)
    running.command.kill()
    ended = running.end()
    assert isinstance(ended, SessionResult)
    assert (ended.state_kept, ended.timed_out) == (True, False)
    came = last.end()
    assert isinstance(came, SessionResult)
    assert came.text == "kept=1\n"
    assert run(fleet, "ls").text == ""


def test_a_command_that_is_withdrawn_before_it_is_waited_for_holds_up_nobody(fleet: Fleet) -> None:
    fleet.sessions.open("one", "work", PLAIN)
    left = fleet.sessions.begin("one", "work", "echo never")
    left.kill()
    assert run(fleet, "echo on").text == "on\n"
    with pytest.raises(SessionBusyError):
        left.wait()


def test_too_many_commands_are_refused(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MAX_WAITING", 1)
    fleet.sessions.open("one", "work", PLAIN)
    queued = [fleet.sessions.begin("one", "work", "true") for _ in range(2)]
    with pytest.raises(SessionBusyError):
        fleet.sessions.begin("one", "work", "true")
    for each in queued:
        assert each.wait().exit_code == 0
    assert run(fleet, "true").exit_code == 0


def test_too_many_sessions_are_refused(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MAX_SESSIONS", 1)
    fleet.sessions.open("one", "work", PLAIN)
    with pytest.raises(SandboxStateError):
        fleet.sessions.open("one", "more", PLAIN)
    fleet.sessions.end("one", "work")
    assert fleet.sessions.open("one", "more", PLAIN).state == "idle"


def test_a_shell_that_is_killed_begins_anew_and_says_so(fleet: Fleet) -> None:
    fleet.sessions.open("one", "work", PLAIN)
    assert run(fleet, "A=1; kill -9 $$").state_kept is False
    # Also between two commands: the next one is not run in a shell that lost its state.
    pid = run(fleet, "B=1; echo $$").text.strip()
    fleet.exec("one", command("kill", "-9", pid))
    lost = run(fleet, "echo ran")
    assert (lost.state_kept, lost.text) == (False, "")
    assert run(fleet, "echo [$A$B]").text == "[]\n"


def test_a_stop_ends_a_session_until_it_is_opened_again(fleet: Fleet) -> None:
    fleet.sessions.open("one", "work", ShellSettings(cwd="/", env={"A": "1"}))
    run(fleet, "cd /tmp")
    fleet.stop("one")
    for _ in range(2):
        with pytest.raises(SandboxDiedError):
            run(fleet, "pwd")
    fleet.start("one")
    with pytest.raises(SandboxDiedError):
        run(fleet, "pwd")
    assert fleet.sessions.get("one", "work").state == "lost"
    # As it was created, and not where it was.
    assert fleet.sessions.open("one", "work", PLAIN).state == "idle"
    assert run(fleet, "pwd; echo $A").text == "/\n1\n"


def test_an_ended_session_tells_all_who_wait(fleet: Fleet) -> None:
    fleet.sessions.open("one", "work", PLAIN)
    running, waiting = Waiting(fleet, "echo begun; sleep 60"), Waiting(fleet, "true")
    assert running.began.wait(30)
    fleet.sessions.end("one", "work")
    ended = running.end()
    assert isinstance(ended, SessionResult)
    assert ended.state_kept is False
    assert isinstance(waiting.end(), SessionNotFoundError)
    with pytest.raises(SessionNotFoundError):
        fleet.sessions.end("one", "work")


def test_the_end_of_the_fleet_waits_for_no_shell(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its runtime has removed or left the sandboxes: an engine that is let go of would be asked in vain."""
    asked: list[str] = []
    monkeypatch.setattr(LocalProcess, "kill", lambda *_: asked.append("kill"))
    fleet.sessions.open("one", "work", PLAIN)
    running = Waiting(fleet, "echo begun; sleep 60")
    assert running.began.wait(30)
    fleet.sessions.close()
    assert isinstance(running.end(), SandboxDiedError)
    assert asked == []
    monkeypatch.undo()


def test_a_removed_sandbox_takes_its_sessions_along(fleet: Fleet) -> None:
    fleet.sessions.open("one", "work", PLAIN)
    run(fleet, "true")
    fleet.remove("one")
    with pytest.raises(SandboxNotFoundError):
        fleet.sessions.open("one", "work", PLAIN)
    fleet.create(Spec(name="one", image="any"))
    assert fleet.sessions.all("one") == ()
    with pytest.raises(SessionNotFoundError):
        fleet.sessions.get("one", "work")


def test_a_reader_that_stands_still_does_not_stop_the_timeout(fleet: Fleet) -> None:
    fleet.sessions.open("one", "work", PLAIN)
    goes_on = threading.Event()
    stands = threading.Event()

    def stand(_: bytes) -> None:
        stands.set()
        goes_on.wait(30)

    run(fleet, "true")
    flood = "yes & echo $! >yes; wait"
    output = Output(stdout=stand)
    command = fleet.sessions.begin("one", "work", flood, timeout=2, output=output, most_output=1000)
    came: list[SessionResult] = []
    thread = threading.Thread(target=lambda: came.append(command.wait()))
    thread.start()
    assert stands.wait(30)
    awaited(fleet, "[ -s yes ] && ! kill -0 $(cat yes) 2>/dev/null")
    goes_on.set()
    thread.join(30)
    assert (came[0].timed_out, came[0].truncated, len(came[0].stdout_bytes)) == (True, True, 1000)


def test_a_flood_between_commands_is_bounded(fleet: Fleet) -> None:
    fleet.sessions.open("one", "work", PLAIN)
    run(fleet, "(head -c 5000000 /dev/zero; echo x >done) &")
    awaited(fleet, "[ -e done ]")
    assert len(run(fleet, "true").stdout_bytes) <= 2_000_000


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "5"])
def test_an_impossible_timeout_is_refused(fleet: Fleet, wrong: float) -> None:
    fleet.sessions.open("one", "work", PLAIN)
    with pytest.raises(SpecError):
        run(fleet, "true", timeout=wrong)
    assert run(fleet, "true").exit_code == 0


def command(*words: str) -> Command:
    return Command(argv=words)


def awaited(fleet: Fleet, condition: str) -> None:
    """Wait in the sandbox until a condition holds."""
    line = f"i=0; until {condition}; do sleep 0.1; i=$((i+1)); [ $i -lt 300 ] || exit 1; done"
    assert fleet.exec("one", command("sh", "-c", line)).exit_code == 0
