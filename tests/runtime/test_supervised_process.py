"""A command under the supervisor, where the sandbox is a session of this machine."""

from __future__ import annotations

import os
import selectors
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from egress.runtime import supervised_process
from egress.runtime.errors import (
    EngineError,
    PathNotFoundError,
    SandboxDiedError,
    SandboxError,
    SandboxStateError,
)
from egress.runtime.proc_scripts import SUPERVISOR_PATH
from egress.runtime.protocol import NO_OUTPUT
from egress.runtime.spec import Command, ExecResult, Terminal
from egress.runtime.supervised_process import StreamName, SupervisedProcess
from tests.runtime.script import supervisor

NOT_BEGUN = 126


class LocalCommand:
    """A process of this machine."""

    def __init__(self, target: LocalTarget, words: Sequence[str], env: Mapping[str, str]) -> None:
        self._target = target
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={"PATH": os.defpath, **env},
        )
        self._outputs = selectors.DefaultSelector()
        for name, stream in (("stdout", self._process.stdout), ("stderr", self._process.stderr)):
            assert stream is not None
            self._outputs.register(stream, selectors.EVENT_READ, name)

    def read(self) -> list[tuple[StreamName, bytes]] | None:
        while self._outputs.get_map():
            key, _ = self._outputs.select()[0]
            if data := os.read(key.fd, 65536):
                return [(key.data, data)]
            self._outputs.unregister(key.fileobj)
        return None

    def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def close_input(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def resize(self, terminal: Terminal) -> None:
        raise EngineError("there is no terminal", "ask for none")

    def abort(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self.close_input()
        self._process.wait(30)
        self._outputs.close()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    def status(self) -> int | None:
        if self._target.lost:
            raise EngineError("nobody answers", "wait")
        code = self._process.wait(30)
        return 128 - code if code < 0 else code

    def has_not_begun(self, status: int, output: bytes) -> bool:
        return status == NOT_BEGUN and output == b"engine: no\n"


@dataclass
class LocalTarget:
    """A sandbox that is none."""

    name: str = "one"
    folder: str = "/"
    is_there: bool = True
    lost: bool = False
    """Whether nobody tells how commands end."""
    refuses: bool = False
    begun: list[list[str]] = field(default_factory=list)

    def begin(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        *,
        has_input: bool,
        terminal: Terminal | None,
        token: str = "",
    ) -> LocalCommand:
        self.begun.append([each if each != SUPERVISOR_PATH else str(supervisor()) for each in words])
        if self.refuses:
            self.begun[-1] = ["/bin/sh", "-c", f"echo engine: no; exit {NOT_BEGUN}"]
        made = LocalCommand(self, self.begun[-1], env)
        if not has_input:
            made.close_input()
        return made

    def is_alive(self) -> bool:
        return self.is_there

    def death(self) -> SandboxError:
        return SandboxDiedError("the sandbox one has ended", "start it again")


def run(target: LocalTarget, *words: str, **values: object) -> ExecResult:
    command = Command(argv=words, **values)  # type: ignore[arg-type]
    return SupervisedProcess(target, command, NO_OUTPUT, is_open=False).wait(30)


def test_a_command_has_its_status_its_streams_and_its_variables() -> None:
    found = run(LocalTarget(), "sh", "-c", "echo $A; cat; echo bad >&2; exit 3", env={"A": "b"}, input=b"in")
    assert (found.exit_code, found.stdout_bytes, found.stderr_bytes) == (3, b"b\nin", b"bad\n")


def test_a_command_that_takes_too_long_is_ended_inside() -> None:
    found = run(LocalTarget(), "sleep", "60", timeout=0.2)
    assert (found.exit_code, found.timed_out) == (124, True)


def test_a_command_is_killed_by_a_second_one() -> None:
    target = LocalTarget()
    process = SupervisedProcess(target, Command(argv=("sleep", "60")), NO_OUTPUT, is_open=True)
    process.kill(0)
    assert process.wait(30).exit_code in (137, 143)
    assert [words[2] for words in target.begun[:2]] == ["run", "end"]


def test_a_folder_that_is_missing_is_named() -> None:
    with pytest.raises(PathNotFoundError, match="/nowhere"):
        run(LocalTarget(), "true", cwd="/nowhere")


def test_the_end_of_the_sandbox_is_told_from_that_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both may look like a kill. What tells them apart is whether another command can start."""
    assert run(LocalTarget(), "sh", "-c", "kill -KILL $$").exit_code == 137
    monkeypatch.setattr(supervised_process, "_KILL_NOTICE_TIMEOUT", 5.0)
    with pytest.raises(SandboxDiedError):
        run(LocalTarget(lost=True, is_there=False), "true")
    with pytest.raises(EngineError, match="nobody answers"):
        run(LocalTarget(lost=True), "true")


def test_a_command_that_was_never_begun_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_process, "_DEATH_NOTICE_TIMEOUT", 0.1)
    with pytest.raises(SandboxStateError, match="cannot start a command"):
        run(LocalTarget(refuses=True), "true")
    with pytest.raises(SandboxDiedError):
        run(LocalTarget(refuses=True, is_there=False), "true")


def test_input_is_taken_while_it_runs() -> None:
    process = SupervisedProcess(LocalTarget(), Command(argv=("cat",)), NO_OUTPUT, is_open=True)
    closer = threading.Timer(0.1, process.close_input)
    process.write(b"a")
    closer.start()
    assert process.wait(30).stdout_bytes == b"a"
    closer.join(30)
