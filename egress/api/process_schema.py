"""The values of processes that are found by their ids; see `egress.api.schema`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, field

from egress.api.schema import (
    ApiRequest,
    ApiView,
    Encoding,
    ProblemMessage,
    ResizeMessage,
    RunParameters,
    Seconds,
    TakenMessage,
    TerminalSize,
    Text,
    Values,
)

OutputStreamName = Literal["stdout", "stderr"]
ProcessStateName = Literal["running", "ended", "lost"]


class ProcessSettings(ApiRequest, frozen=True):
    """A command that any client finds again by its id: a line for a shell, or the words of one program."""

    command: str | None = None
    """A line for bash, or sh where the image has no bash."""
    argv: tuple[str, ...] | None = None
    """The words of one program, without a shell."""
    cwd: Text | None = None
    env: Values = field(default_factory=dict)
    timeout: Seconds | None = None
    """Seconds until its process group is ended; the exit status is then 124."""
    grace: Seconds = 2.0
    """Seconds between SIGTERM and SIGKILL."""
    stdin: bool = False
    """Whether input follows; without it the input is empty."""
    keep: int | None = None
    """Bytes kept of each output: the newest. 1 MiB if left out, and at most 8 MiB."""
    terminal: TerminalSize | None = None
    """A terminal for it, of this size; it then takes input, and no `timeout`."""
    profile: Text | None = None
    """The profile of the rules for this process alone, by a ticket that ends with it."""
    params: RunParameters = field(default_factory=dict)
    """Values for parameters of the rules, for this process alone."""


class ProcessView(ApiView, frozen=True):
    """A process. `lost` means that its sandbox ended under it."""

    id: str
    sandbox: str
    argv: tuple[str, ...]
    started: datetime
    state: ProcessStateName
    exit_code: int | None = None
    timed_out: bool = False
    columns: int | None = None
    rows: int | None = None
    """The size of its terminal; none without a terminal."""


class ProcessesView(ApiView, frozen=True):
    """The processes of a sandbox: those that run, and the last that ended."""

    processes: tuple[ProcessView, ...]


class SignalSettings(ApiRequest, frozen=True):
    """A signal, or the end."""

    name: Text | None = None
    """Such as `HUP`: it goes to all of its processes. Without it the process group is ended."""
    grace: Seconds = 2.0
    """Seconds between SIGTERM and SIGKILL, for the end."""


class HttpProbeSettings(ApiRequest, frozen=True):
    """A request over HTTP to a program in the sandbox, and the answers that count."""

    port: int
    path: Text = "/"
    min_status: int = 200
    max_status: int = 399
    interval: Seconds = 0.5
    """Seconds between two requests."""


class WaitSettings(ApiRequest, frozen=True):
    """What to wait for: `log`, `port` or `http`; the end of the process without any of them."""

    timeout: Seconds | None = None
    log: Text = ""
    """A text in its kept or later output, as it is: no pattern."""
    port: int | None = None
    """A TCP port in its sandbox that a program listens on."""
    http: HttpProbeSettings | None = None
    """A request whose answer counts; one that is not complete in 2 seconds does not."""


class OutputEventView(ApiView, frozen=True, omit_defaults=True):
    """An event of an output: bytes of it, a gap, or the end."""

    offset: int
    """The offset of the first byte of it."""
    next: int
    """The offset to continue from, also after a reconnect."""
    text: str | None = None
    base64: str | None = None
    process: ProcessView | None = None
    """The process, at its end."""


class OutputQuery(ApiRequest, frozen=True):
    """Which output, and from where."""

    stream: OutputStreamName = "stdout"
    offset: Annotated[int, Meta(ge=0)] = 0
    """Counted in bytes from the beginning of the output."""
    encoding: Encoding = "utf-8"
    """The form of the bytes in events."""


class AttachQuery(ApiRequest, frozen=True):
    """The size of the terminal of the client; without it the size stays as it is."""

    columns: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    rows: Annotated[int, Meta(ge=1, le=10_000)] | None = None


class InputQuery(ApiRequest, frozen=True):
    """What to do after the input."""

    close: bool = False
    """Whether the input is complete."""


# The terminal of a process: a WebSocket. Binary messages carry a channel in their first byte, then data.


class AttachedMessage(ApiView, frozen=True, tag_field="type", tag="attached"):
    """The client is attached; the output that comes next shows the terminal as it is."""

    process: ProcessView


class EndedMessage(ApiView, frozen=True, tag_field="type", tag="ended"):
    """The process has ended; all output came before."""

    process: ProcessView


TerminalClientMessage = ResizeMessage
TerminalServerMessage = AttachedMessage | TakenMessage | EndedMessage | ProblemMessage
