"""Commands where something goes wrong around them: the runtime's own tests have the rest."""

from __future__ import annotations

import io
import os
import socket
import threading
from pathlib import Path

import pytest

from egress.runtime import supervised_process as module
from egress.runtime.docker.engine import ContainerState, DockerEngine
from egress.runtime.docker.exec_stream import ExecStream, start_exec
from egress.runtime.docker.process import ContainerCommand, death_error
from egress.runtime.errors import EngineError, EngineUnavailableError, SandboxDiedError, UnsupportedError
from egress.runtime.protocol import Output
from egress.runtime.spec import Command
from tests.runtime.docker_lab import DockerLab


class Failing(io.RawIOBase):
    """A file that breaks off."""

    def __init__(self) -> None:
        self._pieces = [b"one ", b"two"]

    def read(self, size: int = -1) -> bytes:
        if not self._pieces:
            raise OSError("the disk is gone")
        return self._pieces.pop(0)


def test_input_that_breaks_off_ends_there(house: DockerLab) -> None:
    box = house.box("input")
    assert box.run("cat", input=Failing()).stdout_bytes == b"one two"
    house.runtime.remove("input")


def test_who_is_told_of_output_may_fail_and_is_told(house: DockerLab) -> None:
    house.box("told")
    command = Command(argv=("echo", "x"))
    with pytest.raises(ZeroDivisionError):
        house.runtime.exec("told", command, Output(stdout=lambda _: 1 // 0))
    assert house.runtime.exec("told", command).exit_code == 0
    house.runtime.remove("told")


def test_one_that_outlives_its_time_and_its_supervisor_is_given_up(
    house: DockerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has killed whoever watched it, and goes on without its streams."""
    monkeypatch.setattr(module, "_OVERRUN_TIMEOUT", 0.5)
    box = house.box("wild")
    # The clock has a session of its own, and is found by what it was told.
    script = (
        'w=wat; w=${w}ch; for f in /proc/[0-9]*/cmdline; do case $(tr "\\0" " " <"$f") in *" $w "*) '
        'n=${f#/proc/}; kill -KILL "${n%/cmdline}";; esac; done 2>/dev/null; '
        "trap '' TERM; sleep 300 & wait; sleep 300"
    )
    result = box.sh(script, timeout=0.5, grace=0)
    assert (result.exit_code, result.timed_out) == (124, True)
    house.runtime.remove("wild")


def test_who_ends_a_command_is_not_held_up_by_others_in_the_sandbox(
    house: DockerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have one user, so each can stop what comes to end it."""
    monkeypatch.setattr(module, "_OWN_COMMAND_TIMEOUT", 0.5)
    box = house.box("held")
    box.sh("echo 'kill -STOP $$' >/tmp/held.sh")
    process = house.runtime.spawn("held", Command(argv=("sleep", "300")))
    with monkeypatch.context() as stopped:
        stopped.setattr(module, "SUPERVISOR_PATH", "/tmp/held.sh")
        process.kill(0.1)
    assert "T" in box.sh("cut -d ' ' -f 3 /proc/[0-9]*/stat").text.split()
    with pytest.raises(TimeoutError):
        process.wait(0)
    process.kill(0.1)
    assert process.wait().exit_code == 143
    house.runtime.remove("held")


def test_a_command_of_our_own_is_waited_for_so_long_and_no_longer(house: DockerLab) -> None:
    house.box("own")
    engine = house.runtime._engine
    ran = []
    for script in (":", "kill -STOP $$"):
        command = engine.create_exec(
            house.container("own"), ["sh", "-c", script], {}, user="1000", has_input=False, has_terminal=False
        )
        stream = ContainerCommand(engine, command)
        ran.append(module.drain(stream, 20.0 if script == ":" else 0.5))
    assert ran == [True, False]
    house.runtime.remove("own")


def test_why_a_sandbox_is_not_there_is_told(engine: DockerEngine) -> None:
    condition = engine.container_state
    assert condition("nothing") is None
    assert isinstance(death_error("one", None), SandboxDiedError)
    from datetime import UTC, datetime

    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert isinstance(death_error("one", ContainerState("exited", 137, now)), SandboxDiedError)
    assert isinstance(death_error("one", ContainerState("exited", 127, now)), UnsupportedError)


@pytest.mark.parametrize(
    ("answer", "early"),
    [
        (b"HTTP/1.1 101 UPGRADED\r\nx: y\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\n\r\n\x01\0\0\0\0\0\0\x05hello", b"hello"),
    ],
)
def test_output_that_comes_with_the_answer_is_not_lost(tmp_path: Path, answer: bytes, early: bytes) -> None:
    place = answered(tmp_path, answer)
    attached = ExecStream(*start_exec(place, "1.41", "id", has_terminal=False), has_terminal=False)
    assert attached.read() == ([("stdout", early)] if early else None)
    attached.close()


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 409 Conflict\r\n\r\n", b"nonsense\r\n\r\n", b"x" * 40_000]
)
def test_an_engine_that_begins_nothing_is_told(tmp_path: Path, answer: bytes) -> None:
    place = answered(tmp_path, answer)
    with pytest.raises(EngineError, match="did not start"):
        start_exec(place, "1.41", "id", has_terminal=False)
    with pytest.raises(EngineUnavailableError):
        start_exec(tmp_path / "nothing", "1.41", "id", has_terminal=False)


def answered(tmp_path: Path, answer: bytes) -> Path:
    """The socket of an engine that answers once."""
    place = Path(os.path.relpath(tmp_path)) / "engine.sock"
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(place))
    sock.listen()

    def serve() -> None:
        with sock:
            client, _ = sock.accept()
            with client:
                client.recv(65536)
                client.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return place
