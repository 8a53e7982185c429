"""The sessions of a fleet that clients find by their ids, in this process.

A session runs one command at a time, and the others wait in the order in which they came. The number of
sessions of a sandbox and of waiting commands is bounded. Its shell starts with its first command.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from egress.fleet.errors import SessionBusyError, SessionDiffersError, SessionNotFoundError
from egress.fleet.session_interface import (
    MAX_SESSION_OUTPUT_BYTES,
    SessionResult,
    SessionStatus,
    ShellSettings,
    check_line,
    check_session_id,
)
from egress.fleet.session_shell import SessionShell, ShellCall
from egress.runtime.argument_types import check_number
from egress.runtime.errors import SandboxStateError, SpecError
from egress.runtime.protocol import NO_OUTPUT, Output, Runtime

MAX_SESSIONS: Final = 32
"""Sessions of a sandbox."""
MAX_WAITING: Final = 16
"""Commands of a session that wait for the one that runs."""


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - clients of other processes are told when it was created


class SessionTable:
    """`SessionTracker` in this process."""

    def __init__(self, runtime: Runtime, clock: Callable[[], datetime] = _now) -> None:
        self._runtime = runtime
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: dict[str, dict[str, _TableSession]] = {}

    def open(self, name: str, session: str, settings: ShellSettings) -> SessionStatus:
        check_session_id(session)
        with self._lock:
            there = self._sessions.get(name, {})
            found = there.get(session)
            if found is not None and not found.is_lost:
                found.refuse_different(settings)
                return found.status()
            if found is not None:
                settings = replace(found.settings, **settings.given)  # type: ignore[arg-type]
            elif len(there) >= MAX_SESSIONS:
                raise SandboxStateError(
                    f"the sandbox {name} has {MAX_SESSIONS} sessions", "end one of them first"
                )
            made = _TableSession(self._runtime, name, session, settings, self._clock())
            self._sessions.setdefault(name, {})[session] = made
        # Looked for after it is listed, so that a removal of the sandbox meanwhile takes the session along.
        try:
            self._runtime.info(name)
        except BaseException:
            self._drop(made)
            raise
        return made.status()

    def all(self, name: str) -> tuple[SessionStatus, ...]:
        self._runtime.info(name)
        with self._lock:
            found = tuple(self._sessions.get(name, {}).values())
        return tuple(sorted((each.status() for each in found), key=lambda each: each.created))

    def get(self, name: str, session: str) -> SessionStatus:
        return self._find(name, session).status()

    def begin(
        self,
        name: str,
        session: str,
        line: str,
        *,
        timeout: float | None = None,
        output: Output = NO_OUTPUT,
        most_output: int = MAX_SESSION_OUTPUT_BYTES,
    ) -> TableCommand:
        check_line(line)
        if timeout is not None:
            check_number("timeout", timeout)
            # The comparison with a NaN is false.
            if not 0 <= timeout <= threading.TIMEOUT_MAX:
                raise SpecError("timeout is out of range", "use a number of seconds")
        command = TableCommand(self._find(name, session), line, timeout, ShellCall(output, most_output))
        command.enqueue()
        return command

    def end(self, name: str, session: str) -> None:
        found = self._find(name, session)
        self._drop(found)
        found.close()

    def lose(self, name: str) -> None:
        """Count the shells of a sandbox that was stopped as lost.

        A runtime learns it later, and with another start in between not at all.
        """
        with self._lock:
            found = tuple(self._sessions.get(name, {}).values())
        for each in found:
            each.lose()

    def forget(self, name: str) -> None:
        """Drop the sessions of a sandbox that was removed, or that this fleet leaves."""
        with self._lock:
            gone = self._sessions.pop(name, {})
        for each in gone.values():
            # Nothing is ended: the shells went with the sandbox, or end with their input.
            each.lose()
            each.refuse()

    def close(self) -> None:
        """Drop all sessions."""
        for name in tuple(self._sessions):
            self.forget(name)

    def _find(self, name: str, session: str) -> _TableSession:
        with self._lock:
            found = self._sessions.get(name, {}).get(session)
        if found is None:
            raise SessionNotFoundError("the sandbox has no session of this id", "create it first")
        return found

    def _drop(self, session: _TableSession) -> None:
        with self._lock:
            there = self._sessions.get(session.sandbox, {})
            # Another one may have taken its id.
            if there.get(session.id) is session:
                del there[session.id]
            if not there:
                self._sessions.pop(session.sandbox, None)


class _TableSession:
    """One session: its settings, its shell, and the commands that wait for it."""

    def __init__(
        self, runtime: Runtime, name: str, session: str, settings: ShellSettings, created: datetime
    ) -> None:
        self.id = session
        self.sandbox = name
        self._runtime = runtime
        self.settings = settings
        self._created = created
        self._shell: SessionShell | None = None
        self._is_closed = False
        self._changed = threading.Condition()
        self._queue: deque[TableCommand] = deque()
        """The command that runs, then those that wait."""
        self._turn: TableCommand | None = None

    @property
    def is_lost(self) -> bool:
        shell = self._shell
        return shell is not None and shell.is_lost

    def status(self) -> SessionStatus:
        return SessionStatus(
            id=self.id,
            sandbox=self.sandbox,
            created=self._created,
            state="lost" if self.is_lost else "busy" if self._queue else "idle",
            waiting=max(0, len(self._queue) - 1),
            shell=self.settings.shell,
            cwd=self.settings.cwd,
        )

    def refuse_different(self, settings: ShellSettings) -> None:
        """Raise `SessionDiffersError` unless it was created with these settings."""
        others = [name for name, value in settings.given.items() if value != getattr(self.settings, name)]
        if others:
            raise SessionDiffersError(
                f"the session {self.id} exists with other settings: {', '.join(others)}",
                "use the same settings, end it first, or choose another id",
            )

    def enqueue(self, command: TableCommand) -> None:
        """Let a command wait for its turn. Raises `SessionBusyError`."""
        with self._changed:
            self._refuse_closed()
            if len(self._queue) > MAX_WAITING:
                raise SessionBusyError(
                    f"{MAX_WAITING} commands wait for the session {self.id}", "try again later"
                )
            self._queue.append(command)

    def await_turn(self, command: TableCommand) -> SessionShell:
        """Return the shell when it is the turn of this command. Raises if it was withdrawn before."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closed or command.is_withdrawn or self._queue[0] is command
            )
            self._refuse_closed()
            command.refuse_withdrawn()
            self._turn = command
            shell = self._shell
        if shell is None:
            # Only the command whose turn it is starts a shell, and a start takes its time.
            shell = SessionShell(self._runtime, self.sandbox, self.settings)
            with self._changed:
                self._shell = shell
                is_closed = self._is_closed
            if is_closed:
                shell.end()
        return shell

    def withdraw(self, command: TableCommand) -> None:
        """Take a command out of the queue, unless it runs: the thread that waits for it does that then."""
        with self._changed:
            command.is_withdrawn = True
            if self._turn is not command:
                self._remove(command)

    def leave(self, command: TableCommand, *, has_shell: bool) -> None:
        """Let the next command run; without the shell of this one, in a new one."""
        with self._changed:
            if not has_shell:
                self._shell = None
            self._remove(command)

    def lose(self) -> None:
        """Refuse further commands: the sandbox has ended under the shell, if there is one."""
        shell = self._shell
        if shell is not None:
            shell.lose()

    def refuse(self) -> None:
        """Refuse commands from now on, also those that wait."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def close(self) -> None:
        self.refuse()
        shell = self._shell
        if shell is not None:
            shell.end()

    def _remove(self, command: TableCommand) -> None:
        if self._turn is command:
            self._turn = None
        if command in self._queue:
            self._queue.remove(command)
        self._changed.notify_all()

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise SessionNotFoundError("the session was ended", "create it again")


class TableCommand:
    """`SessionCommand` in this process."""

    def __init__(self, session: _TableSession, line: str, timeout: float | None, call: ShellCall) -> None:
        self._session = session
        self._line = line
        self._timeout = timeout
        self._call = call
        self._shell: SessionShell | None = None
        """The shell, once it is the command's turn."""
        self.is_withdrawn = False

    def enqueue(self) -> None:
        """Stand in the queue. Raises `SessionBusyError`."""
        self._session.enqueue(self)

    def refuse_withdrawn(self) -> None:
        """Raise `SessionBusyError` if its caller has given up waiting."""
        if self.is_withdrawn:
            raise SessionBusyError("the command was withdrawn before its turn", "run it again")

    def wait(self) -> SessionResult:
        has_shell = True
        try:
            self._shell = self._session.await_turn(self)
            # Asked after the shell is there to be interrupted: whichever comes first, it does not go on.
            self.refuse_withdrawn()
            result = self._shell.run(self._call, self._line, self._timeout)
            has_shell = result.state_kept
        finally:
            self._session.leave(self, has_shell=has_shell)
        return result

    def kill(self) -> None:
        self._session.withdraw(self)
        if self._shell is not None:
            self._shell.interrupt(self._call)
