"""A persistent shell in a sandbox: folder, variables and state stay between commands."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from egress.fleet.errors import SessionNotFoundError
from egress.fleet.session_interface import SessionResult, SessionStatus, SessionTracker
from egress.sandbox.cancellation import cancelled_by
from egress.sandbox.errors import SessionClosedError, checked
from egress.sandbox.output_decoder import OutputCallback, decoded_output


class Session:
    r"""A persistent shell. It runs one command at a time; further callers wait for their turn.

    >>> with sandbox.session() as session:  # doctest: +SKIP
    ...     session.exec("cd project && export DEBUG=1")
    ...     session.exec("pwd").text
    '/workspace/project\n'
    """

    def __init__(self, tracker: SessionTracker, name: str, session: str) -> None:
        self._tracker = tracker
        self._name = name
        self._id = session
        self._is_closed = False

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return f"<Session {self.id} in {self._name!r}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def id(self) -> str:
        """The id by which any program finds it."""
        return self._id

    def status(self) -> SessionStatus:
        """Return what it is, and whether a command runs. Raises `SessionNotFoundError` after its end."""
        return self._tracker.get(self._name, self.id)

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
        Raises `SandboxDiedError`, `SessionClosedError` after `close`, `SessionNotFoundError` if another
        program ended it, and `SessionBusyError` if too many callers wait.

        >>> session.exec("cd /tmp; pwd").text  # doctest: +SKIP
        '/tmp\n'
        """
        try:
            with decoded_output(on_stdout, on_stderr, text=text) as output:
                command = self._tracker.begin(self._name, self.id, line, timeout=timeout, output=output)
                with cancelled_by(command.kill):
                    result = command.wait()
        except SessionNotFoundError:
            if self._is_closed:
                raise SessionClosedError("this session is closed", "start another one") from None
            raise
        if check:
            checked(result)
        return result

    def close(self) -> None:
        """End the shell and its processes. Does nothing if it is closed."""
        self._is_closed = True
        try:
            self._tracker.end(self._name, self.id)
        except SessionNotFoundError:
            """Closed before, or by another program."""
