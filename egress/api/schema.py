"""The values that cross the API: settings that a client sends, and views that the server answers with.

The server, the Python client and the OpenAPI document derive from these classes.
A request with an unknown field is refused: the field may change the meaning of the others. An answer may
get further fields in a later version, and a client ignores fields that it does not know.

Seconds are numbers, sizes are MiB or bytes as their names say, and times are RFC 3339.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

API_VERSION = "v1"
MAX_BODY_BYTES = 16 * 1024 * 1024
"""The longest JSON body of a request. Archives and files are streams, and not limited by it."""
MAX_MESSAGE_BYTES = 1024 * 1024
"""The longest message of a WebSocket."""
MAX_PIECE_BYTES = 64 * 1024
"""The most bytes of a stream in one message of ours."""

Name = Annotated[str, Meta(max_length=63, description="The name of a sandbox.")]
Text = Annotated[str, Meta(max_length=4096)]
Seconds = Annotated[float, Meta(description="Seconds.")]
Values = dict[str, str]
RunParameters = Annotated[dict[str, Text], Meta(max_length=32)]
Encoding = Literal["utf-8", "base64"]
SnapshotKindName = Literal["workspace", "image"]
FileKindName = Literal["file", "folder", "other"]
ChangeKindName = Literal["made", "changed", "removed"]
OnIdleName = Literal["delete", "sleep"]
StateName = Literal["created", "running", "paused", "stopped", "asleep"]


class ApiRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of values that a client sends."""


class ApiView(Struct, frozen=True, kw_only=True):
    """The base of values that the server answers with."""


# Errors -------------------------------------------------------------------------------------------


class Problem(ApiView, frozen=True):
    """The one shape of an error. It never holds a secret, a rule, or text from a sandbox."""

    type: str
    """The stable code, such as `sandbox.not_found`: clients decide by it."""
    message: str
    """The cause, for a person."""
    hint: str = ""
    """The cure."""


class ProgressView(ApiView, frozen=True):
    """The progress of a call that takes a while."""

    stage: str
    """What is being done; empty if the server cannot say."""
    seconds: Seconds
    """Seconds since the call began."""


# Sandboxes ----------------------------------------------------------------------------------------


class LimitSettings(ApiRequest, frozen=True):
    """Resource limits; a field that is left out has the default of the server."""

    memory_mib: int | None = None
    cpus: float | None = None
    processes: int | None = None
    temporary_mib: int | None = None
    disk_mib: int | None = None


class MountSettings(ApiRequest, frozen=True):
    """A folder or file of the server's machine. Only the owner's unix socket accepts mounts."""

    source: Text
    target: Text
    writable: bool = False


class SandboxSettings(ApiRequest, frozen=True):
    """The settings of a sandbox. The same settings for the same name find the existing sandbox."""

    image: Text | None = None
    """The image; the default of the server if left out."""
    profile: Text | None = None
    """The profile of the rules for it."""
    params: Values = {}
    """Its values for parameters of the rules, by name."""
    env: Values = {}
    labels: Values = {}
    limits: LimitSettings = LimitSettings()
    mounts: tuple[MountSettings, ...] = ()
    read_only: bool = False
    """Whether only the working folder, /tmp and mounts are writable."""
    ports: tuple[int, ...] = ()
    """Ports of the rules besides 80 and 443."""
    workdir: Text | None = None
    """The working folder; /workspace if left out."""
    user: int | None = None
    group: int | None = None
    timeout: Seconds | None = None
    """Seconds until it is removed."""
    idle_timeout: Seconds | None = None
    """Seconds without use until `on_idle` happens."""
    on_idle: OnIdleName = "delete"
    """`sleep` keeps its files: it is stopped, and the next use starts it."""
    snapshot: Text = ""
    """The snapshot that the sandbox begins with."""
    owner: Text = ""
    """Another owner cannot get the sandbox by its name."""
    start: bool = True
    """Whether it is made ready for commands at once."""


class SandboxChanges(ApiRequest, frozen=True):
    """Other time limits of a sandbox. A field that is left out stays as it is; `null` removes the limit."""

    timeout: Seconds | UnsetType | None = UNSET
    """Seconds from now until it is removed."""
    idle_timeout: Seconds | UnsetType | None = UNSET
    """Seconds without use until `on_idle` happens."""


class SandboxView(ApiView, frozen=True):
    """A sandbox."""

    name: str
    image: str
    state: StateName
    profile: str | None = None
    labels: Values = {}
    created: datetime | None = None
    exit_code: int | None = None
    """The exit status of a sandbox that ended by itself."""
    timeout: Seconds | None = None
    idle_timeout: Seconds | None = None
    on_idle: OnIdleName = "delete"
    snapshot: str = ""
    owner: str = ""
    left: Seconds | None = None
    """Seconds until its timeout."""
    idle: Seconds = 0.0
    """Seconds since its last use."""


class SandboxesView(ApiView, frozen=True):
    """Sandboxes, by name."""

    sandboxes: tuple[SandboxView, ...]


class ReadySettings(ApiRequest, frozen=True):
    """How many sandboxes with these settings to keep ready; 0 ends it."""

    count: int
    settings: SandboxSettings = SandboxSettings()


class PortSettings(ApiRequest, frozen=True):
    """Further ports of the rules that lead to the proxy."""

    ports: tuple[int, ...]


class FleetView(ApiView, frozen=True):
    """The server: what kind of sandboxes it has, and where its record lies."""

    version: str
    """The version of Egress."""
    kind: str
    api: str = API_VERSION
    """The version of the API, as its paths have it."""
    why: str = ""
    cautions: tuple[str, ...] = ()
    audit: str | None = None
    run: str = ""
    runtime_dir: str | None = None
    engine: str | None = None
    image: str = ""


class SandboxEventView(ApiView, frozen=True):
    """An event of a sandbox."""

    kind: str
    sandbox: str


class ExposeSettings(ApiRequest, frozen=True):
    """How long a port is exposed."""

    expires: Seconds | None = None
    """Seconds until the preview ends. Without it a new one lasts, and another keeps the time that it has."""


class PreviewView(ApiView, frozen=True):
    """A port of a sandbox that a browser can open, and any client that has the token. Keep both private."""

    sandbox: str
    port: int
    url: str
    """The address with the token, for a browser."""
    origin: str
    """The address without the token."""
    token: str
    """For the header `egress-preview-token`."""
    left: Seconds | None = None
    """Seconds until it ends."""


class PreviewsView(ApiView, frozen=True):
    """The exposed ports."""

    previews: tuple[PreviewView, ...]


class SnapshotSettings(ApiRequest, frozen=True):
    """Which files to keep under a name."""

    sandbox: Name
    kind: SnapshotKindName = "workspace"


class SnapshotView(ApiView, frozen=True):
    """The files of a sandbox, kept under a name."""

    name: str
    kind: SnapshotKindName
    sandbox: str
    image: str
    created: datetime
    size: int
    """Bytes on the machine of the server."""
    digest: str
    """The SHA-256 of the archive of the workspace."""
    owner: str = ""
    saved_image: str = ""
    user: int = 0
    group: int = 0


class SnapshotsView(ApiView, frozen=True):
    """Snapshots, by name."""

    snapshots: tuple[SnapshotView, ...]


# Files --------------------------------------------------------------------------------------------


class FileFacts(ApiView, frozen=True):
    """Facts about a file or a folder."""

    kind: FileKindName
    size: int
    """Bytes."""
    mode: str
    """The permissions in octal, such as 644."""
    modified: datetime
    is_link: bool


class FileView(FileFacts, frozen=True):
    """A file or a folder; for a link, its target."""

    path: str


class FileEntryView(FileFacts, frozen=True):
    """An entry of a folder; a link is described itself, with the kind `other`."""

    name: str
    """Bytes that are not UTF-8 are replaced."""


class FolderView(ApiView, frozen=True):
    """The entries of a folder, by name."""

    path: str
    entries: tuple[FileEntryView, ...]


class ChangeView(ApiView, frozen=True):
    """A change of a file or a folder."""

    kind: ChangeKindName
    path: str


class FolderSettings(ApiRequest, frozen=True):
    """A folder to create."""

    path: Text
    parents: bool = True
    """Whether folders above it are created too, and an existing folder is no error."""


class RenameSettings(ApiRequest, frozen=True):
    """A path and its new name. An existing file of the new name is replaced, a folder is not."""

    path: Text
    target: Text


class CloneSettings(ApiRequest, frozen=True):
    """A repository to clone. The address holds no credential: the rules inject it."""

    url: Text
    path: Text | None = None
    """The folder; named after the repository if left out."""
    branch: Text | None = None
    depth: int | None = None
    timeout: Seconds = 600.0


class CloneView(ApiView, frozen=True):
    """A repository in a sandbox."""

    path: str
    commit: str | None = None
    """The checked-out commit; none for an empty repository."""


# Commands -----------------------------------------------------------------------------------------


class TerminalSize(ApiRequest, frozen=True):
    """The size of a terminal."""

    columns: int = 80
    rows: int = 24


class CommandSettings(ApiRequest, frozen=True):
    """A command: a line for a shell, or the words of one program."""

    command: str | None = None
    """A line for bash, or sh where the image has no bash."""
    argv: tuple[str, ...] | None = None
    """The words of one program, without a shell."""
    cwd: Text | None = None
    env: Values = {}
    timeout: Seconds | None = None
    """Seconds until its process group is ended; the exit status is then 124."""
    grace: Seconds = 2.0
    """Seconds between SIGTERM and SIGKILL."""
    profile: Text | None = None
    """The profile of the rules for this command alone, by a ticket that ends with it."""
    params: RunParameters = {}
    """Values for parameters of the rules, for this command alone."""
    input: str = ""
    encoding: Encoding = "utf-8"
    """The form of `input` and of the output. Bytes that are not UTF-8 are replaced in text."""
    max_output: int | None = None
    """Bytes kept of each output; the rest is read and dropped."""


class CommandResult(ApiView, frozen=True):
    """The result of a command. Any exit status is a result."""

    exit_code: int
    duration: Seconds = 0.0
    timed_out: bool = False
    truncated: bool = False
    stdout: str = ""
    stderr: str = ""


# The stream of a command: a WebSocket. Binary messages carry a channel in their first byte, then data.
STDIN_CHANNEL = b"\x00"
STDOUT_CHANNEL = b"\x01"
STDERR_CHANNEL = b"\x02"


class StartMessage(ApiRequest, frozen=True, tag_field="type", tag="start"):
    """The first message of a client: the command to start."""

    argv: tuple[str, ...]
    cwd: Text | None = None
    env: Values = {}
    timeout: Seconds | None = None
    grace: Seconds = 2.0
    terminal: TerminalSize | None = None
    profile: Text | None = None
    """The profile of the rules for this command alone, by a ticket that ends with it."""
    params: RunParameters = {}
    """Values for parameters of the rules, for this command alone."""
    stdin: bool = False
    """Whether input follows; without it the input of the command is empty."""
    detached: bool = False
    """Whether the command goes on when the connection ends."""


class CloseInputMessage(ApiRequest, frozen=True, tag_field="type", tag="close_input"):
    """The input is complete."""


class KillMessage(ApiRequest, frozen=True, tag_field="type", tag="kill"):
    """End the process group: SIGTERM, and SIGKILL after `grace` seconds."""

    grace: Seconds = 2.0


class ResizeMessage(ApiRequest, frozen=True, tag_field="type", tag="resize"):
    """The terminal has another size."""

    columns: int
    rows: int


ClientMessage = CloseInputMessage | KillMessage | ResizeMessage
"""A text message of a client after the first."""


class StartedMessage(ApiView, frozen=True, tag_field="type", tag="started"):
    """The command runs."""


class TakenMessage(ApiView, frozen=True, tag_field="type", tag="taken"):
    """One binary message of input was passed on. A client that waits for it can always be heard."""


class ResultMessage(ApiView, frozen=True, tag_field="type", tag="result"):
    """The command has ended; all output came before."""

    exit_code: int
    duration: Seconds = 0.0
    timed_out: bool = False


class ProblemMessage(ApiView, frozen=True, tag_field="type", tag="problem"):
    """The command did not start, or its sandbox ended."""

    problem: Problem


ServerMessage = StartedMessage | TakenMessage | ResultMessage | ProblemMessage


# Queries ------------------------------------------------------------------------------------------


class ListQuery(ApiRequest, frozen=True):
    """Which sandboxes to list."""

    label: tuple[str, ...] = ()
    """NAME=VALUE; a sandbox has all of them."""


class DeleteQuery(ApiRequest, frozen=True):
    """How to remove a sandbox."""

    wait: bool = True
    """Whether to answer when it is gone. It is as good as gone at once."""


class PathQuery(ApiRequest, frozen=True):
    """A path in a sandbox."""

    path: Text


class FileWriteQuery(ApiRequest, frozen=True):
    """A file to write."""

    path: Text
    mode: Annotated[str, Meta(pattern="^[0-7]{3}$", max_length=3)] | None = None
    """Its permissions in octal, such as 755; an existing file keeps its own if left out."""


class FileDeleteQuery(ApiRequest, frozen=True):
    """A file, a link or a folder to remove."""

    path: Text
    recursive: bool = False
    """Whether a folder is removed with its content."""


class WatchQuery(ApiRequest, frozen=True):
    """A folder or a file to watch, at any depth."""

    path: Text
    interval: Annotated[float, Meta(ge=0.05, le=60)] = 0.5
    """Seconds between two looks, at least."""
