"""A persistent shell in a sandbox: folder, variables and state stay between commands.

Theory of operation. One shell runs a small loop, `session.sh`, that reads a command at a time and evaluates
it. Each command comes with a new random marker; its output ends where the marker appears on both streams,
which no program can know in advance. A command that ends the shell, such as `exit`, ends with that status;
the next command starts a new shell, and the result says that the state was lost.

At a timeout the processes of the command are ended, and the shell goes on if it can. A shell that is busy
itself cannot be interrupted: it is killed with its state.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from egress.runtime.argument_types import check_text
from egress.runtime.command_result import CapturedStream
from egress.runtime.errors import SandboxError, SpecError
from egress.runtime.protocol import Output
from egress.runtime.protocol import RuntimeProcess as Running
from egress.runtime.spec import MIB, NO_VALUES, TIMED_OUT_STATUS, Command, ExecResult, Values
from egress.runtime.supervisor import with_proc
from egress.sandbox.cancellation import cancelled_by
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.errors import SessionClosedError, checked
from egress.sandbox.output_decoder import OutputCallback, decoded_output

_LOOP_SCRIPT: Final = Path(__file__).with_name("session.sh").read_text(encoding="utf-8")
_ANY_SHELL_SCRIPT: Final = 'command -v bash >/dev/null 2>&1 && exec bash -c "$@"; exec /bin/sh -c "$@"'
_END_SCRIPT: Final = with_proc(Path(__file__).with_name("session_end.sh"))
_END_TICKS_PER_SECOND: Final = 20
"""The end script polls this often."""
_MAX_OUTPUT_BYTES: Final = 64 * MIB
_SIGNAL_GRACE_SECONDS: Final = 0.3
_SIGNAL_TIMEOUT: Final = 10.0
_KILL_GRACE_SECONDS: Final = 2.0
_MIN_COMMAND_INTERVAL: Final = 0.02
_MAX_STRAY_BYTES: Final = 1 * MIB
_FACT_COUNT: Final = 2
_MAX_FACT_BYTES: Final = 100
_MAX_STATUS_DIGITS: Final = 3
_FAILED_STATUS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResult(ExecResult):
    """The result of a command in a session."""

    state_kept: bool = True
    """Whether the shell goes on. If not, the next command starts a new one."""


class Session:
    r"""A persistent shell. It runs one command at a time; further callers wait for their turn.

    >>> with sandbox.session() as session:  # doctest: +SKIP
    ...     session.exec("cd project && export DEBUG=1")
    ...     session.exec("pwd").text
    '/workspace/project\n'
    """

    def __init__(
        self,
        place: CommandRunner,
        *,
        shell: str | None = None,
        cwd: str | None = None,
        env: Values = NO_VALUES,
    ) -> None:
        self._place = place
        self._shell = shell
        self._cwd = cwd
        self._env = env
        self._process: _Shell | None = None
        self._is_closed = False
        self._turn = threading.Lock()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return f"<Session in {self._place.name!r}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def exec(
        self,
        line: str,
        *,
        timeout: float | None = None,
        check: bool = False,
        text: bool = True,
        on_stdout: OutputCallback | None = None,
        on_stderr: OutputCallback | None = None,
    ) -> SessionResult:
        r"""Run one or more lines in the shell; their input is empty.

        Background processes go on, and their later output counts as output of the command that then runs.
        Raises `SandboxDiedError`, and `SessionClosedError` after `close`.

        >>> session.exec("cd /tmp; pwd").text  # doctest: +SKIP
        '/tmp\n'
        """
        check_text("line", line)
        if "\0" in line:
            raise SpecError("the line holds a NUL", "remove it: shells cannot read NUL")
        with self._turn:
            shell = self._ready()
            with decoded_output(on_stdout, on_stderr, text=text) as output:
                result = shell.run(line, timeout, output)
                if not result.state_kept:
                    self._process = None
        if check:
            checked(result)
        return result

    def close(self) -> None:
        """End the shell and its processes. Does nothing if it is closed."""
        self._is_closed = True
        shell, self._process = self._process, None
        if shell is not None:
            shell.end()

    def _ready(self) -> _Shell:
        if self._is_closed:
            raise SessionClosedError("this session is closed", "start another one")
        if self._process is None:
            self._process = _Shell(self._place, self._shell, self._cwd, self._env)
        return self._process


class _Shell:
    """A shell, from its start to its end."""

    def __init__(
        self, place: CommandRunner, shell: str | None, cwd: str | None, env: Mapping[str, str]
    ) -> None:
        self._place = place
        self._changed = threading.Condition()
        self._ended = False
        self._error: BaseException | None = None
        self._status = 0
        self._call: _Call | None = None
        self._pid = ""
        self._idle_since = 0.0
        self._stray = (bytearray(), bytearray())
        """Output of both streams that arrived between commands."""
        # The first marker tells the shell's process id, which the end script needs.
        first = secrets.token_hex(16)
        self._greeting = MarkerSplitter(first.encode(), self._after_greeting, self._greeted)
        loop = (_LOOP_SCRIPT, "session", first)
        argv = ("/bin/sh", "-c", _ANY_SHELL_SCRIPT, "sh", *loop) if shell is None else (shell, "-c", *loop)
        command = Command(argv=argv, cwd=cwd, env=env, most_output=0)
        self._running: Running = place.begin(command, Output(self._out, self._err))
        threading.Thread(target=self._await, name=f"egress-{place.name}-session", daemon=True).start()

    def run(self, line: str, timeout: float | None, output: Output) -> SessionResult:
        # Process ages are counted in hundredths of a second: older processes must be at least one tick older.
        time.sleep(max(0.0, self._idle_since + _MIN_COMMAND_INTERVAL - time.monotonic()))
        started = time.monotonic()
        call = _Call(output)
        with self._changed:
            self._call = call
            self._take_over(call)
        # The marker goes first: the shell repeats it at the start and the end of the command.
        self._running.write(f"{call.mark}\n{_pack_line(line)}\n".encode("utf-8", "surrogateescape"))
        with cancelled_by(lambda: self._interrupt(call, _KILL_GRACE_SECONDS)):
            timed_out = not self._until(call, timeout)
            if timed_out:
                self._interrupt(call, _KILL_GRACE_SECONDS)
                self._until(call, None)
        with self._changed:
            self._call = None
        self._idle_since = time.monotonic()
        return self._result(call, time.monotonic() - started, timed_out=timed_out)

    def end(self) -> None:
        self._running.close_input()
        self._running.kill()

    # Inside

    def _until(self, call: _Call, timeout: float | None) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: call.is_over or self._ended, timeout)

    def _interrupt(self, call: _Call, grace: float) -> None:
        """End the processes of a command, and the shell if the command does not end by that."""
        # TERM first, repeatedly: the command may start new processes meanwhile; then KILL, then the shell
        # itself.
        end = time.monotonic() + grace
        while time.monotonic() < end and not self._until(call, 0):
            self._ask(call, "TERM", _SIGNAL_GRACE_SECONDS)
            self._until(call, _SIGNAL_GRACE_SECONDS)
        if not self._until(call, 0):
            self._ask(call, "KILL", _SIGNAL_GRACE_SECONDS)
        if not self._until(call, 1.0):
            self._running.kill(0)

    def _ask(self, call: _Call, signal: str, seconds: float) -> None:
        words = (
            "/bin/sh",
            "-c",
            _END_SCRIPT,
            "sh",
            self._pid,
            call.since,
            signal,
            f"{round(seconds * _END_TICKS_PER_SECOND)}",
        )
        # A failure means that the shell has ended, or will be killed.
        with suppress(SandboxError):
            self._place.runtime.exec(self._place.name, Command(argv=words, cwd="/", timeout=_SIGNAL_TIMEOUT))

    def _result(self, call: _Call, duration: float, *, timed_out: bool) -> SessionResult:
        # An error of the shell counts only if it cut the command short.
        if not call.is_over and self._error is not None:
            raise self._error
        call.close()
        status = call.status if call.is_over else self._status
        return SessionResult(
            exit_code=TIMED_OUT_STATUS if timed_out else status,
            stdout_bytes=call.stdout.data(),
            stderr_bytes=call.stderr.data(),
            duration=duration,
            timed_out=timed_out,
            truncated=call.stdout.truncated or call.stderr.truncated,
            state_kept=call.is_over,
        )

    def _out(self, piece: bytes) -> None:
        with self._changed:
            if self._is_greeted():
                self._add(piece, 0)
                return
            self._greeting.add(piece)
            if self._is_greeted():
                # The first command's output may be in the same piece.
                self._greeting.rest()

    def _is_greeted(self) -> bool:
        return bool(self._pid)

    def _err(self, piece: bytes) -> None:
        with self._changed:
            self._add(piece, 1)

    def _add(self, piece: bytes, stream: int) -> None:
        if self._call is not None:
            self._call.cutters[stream].add(piece)
            self._changed.notify_all()
        else:
            self._stray[stream].extend(piece[: _MAX_STRAY_BYTES - len(self._stray[stream])])

    def _take_over(self, call: _Call) -> None:
        for cutter, stray in zip(call.cutters, self._stray, strict=True):
            cutter.add(bytes(stray))
            stray.clear()

    def _greeted(self, fact: bytes) -> None:
        self._pid = fact.decode("ascii", "replace")

    def _after_greeting(self, piece: bytes) -> None:
        # Output before the greeting belongs to no command.
        if self._pid:
            self._add(piece, 0)

    def _await(self) -> None:
        try:
            self._status = self._running.wait().exit_code
        except BaseException as error:  # noqa: BLE001 - raised again by the next command
            self._error = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class _Call:
    """A command, and its output so far."""

    def __init__(self, output: Output) -> None:
        self.mark = secrets.token_hex(16)
        self.stdout = CapturedStream(_MAX_OUTPUT_BYTES, output.stdout)
        self.stderr = CapturedStream(_MAX_OUTPUT_BYTES, output.stderr)
        self._facts: list[bytes] = []
        """The values after the first two markers."""
        self._has_ended = False
        mark = self.mark.encode()
        self.cutters = (
            MarkerSplitter(mark, self.stdout.add, self._said),
            MarkerSplitter(mark, self.stderr.add, self._end),
        )

    @property
    def since(self) -> str:
        """The start of the command, on the sandbox's clock."""
        return self._facts[0].decode("ascii", "replace") if self._facts else ""

    @property
    def is_over(self) -> bool:
        return len(self._facts) == _FACT_COUNT and self._has_ended

    @property
    def status(self) -> int:
        # A program that inspected the shell may have forged the value.
        said = self._facts[1]
        return int(said) if said.isdigit() and len(said) <= _MAX_STATUS_DIGITS else _FAILED_STATUS

    def _said(self, fact: bytes) -> None:
        # A program that knows the marker can repeat it.
        if len(self._facts) < _FACT_COUNT:
            self._facts.append(fact[:_MAX_FACT_BYTES])

    def _end(self, _fact: bytes) -> None:
        self._has_ended = True

    def close(self) -> None:
        for cutter in self.cutters:
            cutter.rest()


def _pack_line(line: str) -> str:
    """Encode a text as one line, for `printf %b`."""
    return "." + line.replace("\\", "\\\\").replace("\n", "\\n")


_MAX_MARKER_VALUE_BYTES: Final = 40


class MarkerSplitter:
    """A stream, split at lines that begin with the marker."""

    def __init__(
        self, mark: bytes, output: Callable[[bytes], object], found: Callable[[bytes], object]
    ) -> None:
        """`output` gets bytes outside of markers, `found` the value after each marker."""
        self._mark = mark
        self._output = output
        self._found = found
        self._held = b""

    def add(self, piece: bytes) -> None:
        """Add the next bytes."""
        self._held += piece
        while (at := self._held.find(self._mark)) >= 0:
            fact, end, rest = self._held[at + len(self._mark) :].partition(b"\n")
            if not end and len(fact) <= _MAX_MARKER_VALUE_BYTES:
                self._pass_on(at)
                return
            self._pass_on(at)
            self._held = rest
            self._found(fact.strip())
        self._pass_on(len(self._held) - self._overlap())

    def rest(self) -> None:
        """Flush: the stream has ended, so held bytes are no marker."""
        self._pass_on(len(self._held))

    def _pass_on(self, size: int) -> None:
        if size:
            self._output(self._held[:size])
            self._held = self._held[size:]

    def _overlap(self) -> int:
        """The number of last bytes that may be the beginning of a marker."""
        most = min(len(self._held), len(self._mark) - 1)
        return next((size for size in range(most, 0, -1) if self._mark.startswith(self._held[-size:])), 0)
