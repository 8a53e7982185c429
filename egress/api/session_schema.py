"""The values of sessions; see `egress.api.schema`."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import field

from egress.api.schema import (
    ApiRequest,
    ApiView,
    CommandResult,
    Encoding,
    RunParameters,
    Seconds,
    Text,
    Values,
)

SessionStateName = Literal["idle", "busy", "lost"]


class SessionSettings(ApiRequest, frozen=True):
    """How the shell of a session is started. A setting that is left out is that of the existing session."""

    shell: Text | None = None
    """The path of the shell; bash, or sh where the image has no bash, if left out."""
    cwd: Text | None = None
    """The folder in which it begins."""
    env: Values = field(default_factory=dict)
    profile: Text | None = None
    """The profile of the rules for this shell alone, by a ticket that ends with it."""
    params: RunParameters = field(default_factory=dict)
    """Values for parameters of the rules, for this shell alone."""


class SessionView(ApiView, frozen=True):
    """A session. `lost` means that its sandbox ended under it, also by a sleep."""

    id: str
    sandbox: str
    created: datetime
    state: SessionStateName
    waiting: int = 0
    """Commands that wait for the one that runs."""
    shell: str | None = None
    cwd: str | None = None


class SessionsView(ApiView, frozen=True):
    """The sessions of a sandbox, in the order of their creation."""

    sessions: tuple[SessionView, ...]


class SessionCommandSettings(ApiRequest, frozen=True):
    """One or more lines for the shell of a session. Their input is empty."""

    command: str
    timeout: Seconds | None = None
    """Seconds from its turn until its processes are ended; the exit status is then 124."""
    encoding: Encoding = "utf-8"
    """The form of the output. Bytes that are not UTF-8 are replaced in text."""
    max_output: int | None = None
    """Bytes kept of each output; the rest is read and dropped."""


class SessionCommandResult(CommandResult, frozen=True):
    """The result of a command in a session."""

    state_kept: bool = True
    """Whether the shell goes on. If not, the next command starts a new one."""
