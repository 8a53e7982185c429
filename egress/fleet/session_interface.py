"""Sessions that any client finds again by their ids: the interface, in this process and over the API.

A session is a shell that keeps its folder and variables between commands. It runs one command at a time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, Protocol

from egress.runtime.argument_types import check_text
from egress.runtime.errors import SpecError
from egress.runtime.protocol import NO_OUTPUT, Output
from egress.runtime.spec import MIB, NO_VALUES, Command, ExecResult, RunRights, Values

SessionState = Literal["idle", "busy", "lost"]
"""`lost` is a session whose sandbox ended under its shell, also by a sleep."""

MAX_SESSION_OUTPUT_BYTES: Final = 64 * MIB
"""Bytes kept of each output of a command, unless its caller asks for less."""
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResult(ExecResult):
    """The result of a command in a session."""

    state_kept: bool = True
    """Whether the shell goes on. If not, the next command starts a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellSettings:
    """How the shell of a session is started. Raises `SpecError` for impossible settings."""

    shell: str | None = None
    """Its path; bash, or sh where the image has no bash, if left out."""
    cwd: str | None = None
    env: Values = NO_VALUES
    rights: RunRights | None = None
    """Rights of its shell; None for those of the sandbox."""

    def __post_init__(self) -> None:
        # Checked as the command that they become, and its values kept: variables are then a copy.
        made = Command(argv=("sh" if self.shell is None else self.shell,), cwd=self.cwd, env=self.env)
        object.__setattr__(self, "env", made.env)

    @property
    def given(self) -> Mapping[str, object]:
        """The settings that were not left out, by name."""
        values = {"shell": self.shell, "cwd": self.cwd, "env": self.env or None, "rights": self.rights}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """A session."""

    id: str
    sandbox: str
    created: datetime
    state: SessionState
    waiting: int = 0
    """Commands that wait for the one that runs."""
    shell: str | None = None
    cwd: str | None = None
    """The folder in which it began."""


class SessionCommand(Protocol):
    """A command of a session, from the moment at which it stands in the queue."""

    def wait(self) -> SessionResult:
        """Run it to its end, after the commands that came before it."""

    def kill(self) -> None:
        """End it, or take it out of the queue; the session goes on if its shell can."""


class SessionTracker(Protocol):
    """The sessions of all sandboxes of a fleet."""

    def open(self, name: str, session: str, settings: ShellSettings) -> SessionStatus:
        """Create a session, or find the one of this id; one that is lost begins again.

        Settings that are left out are those of the existing session. Raises `SessionDiffersError` for other
        ones, and `SandboxStateError` if there are too many sessions.
        """

    def all(self, name: str) -> tuple[SessionStatus, ...]:
        """The sessions of a sandbox, in the order of their creation."""

    def get(self, name: str, session: str) -> SessionStatus:
        """The session of this id. Raises `SessionNotFoundError`."""

    def begin(
        self,
        name: str,
        session: str,
        line: str,
        *,
        timeout: float | None = None,
        output: Output = NO_OUTPUT,
        most_output: int = MAX_SESSION_OUTPUT_BYTES,
    ) -> SessionCommand:
        """Queue one or more lines for the shell. Raises `SessionBusyError` if too many commands wait."""

    def end(self, name: str, session: str) -> None:
        """End a session with its processes. Raises `SessionNotFoundError`."""


def check_session_id(session: str) -> None:
    """Raise `SpecError` unless this is an id: it is a part of a path in the API."""
    check_text("the id of a session", session)
    if not _ID.fullmatch(session):
        raise SpecError(
            "the id of a session is not a name",
            "use 1 to 64 letters, digits, dots, hyphens and underscores; the first a letter or a digit",
        )


def check_line(line: str) -> None:
    """Raise `SpecError` unless a shell can read this text."""
    check_text("line", line)
    if "\0" in line:
        raise SpecError("the line holds a NUL", "remove it: shells cannot read NUL")
