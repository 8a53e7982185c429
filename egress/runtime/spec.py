"""What a sandbox is asked to be, what a command in one is, and what came of it: frozen values.

They are checked when they are made, and an error names the field. Everything in them is data: no value ends
up in a shell's text. Whether the image exists, or a folder may be mounted, is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from posixpath import normpath
from types import MappingProxyType
from typing import BinaryIO, Final, Literal

from egress.runtime.errors import CommandError, ExecTimeoutError, SpecError

NAME_PATTERN: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?")
_VARIABLE_PATTERN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL_PATTERN: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,126}[A-Za-z0-9])?")
RESERVED_LABEL_PREFIX: Final = "egress."
"""What labels of a user do not begin with."""

WORKSPACE: Final = "/workspace"
TIMED_OUT_STATUS: Final = 124
"""The status of a command that was ended by its timeout."""
MIB: Final = 1024 * 1024
MAX_READY: Final = 64
"""Sandboxes that are kept ready, of all kinds together."""

State = Literal["created", "running", "paused", "stopped"]
Values = Mapping[str, str]
NO_VALUES: Final[Values] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """What a sandbox may use up at most."""

    memory_mib: int = 2048
    """Memory without swap; what needs more is ended."""
    cpus: float = 2.0
    processes: int = 1024
    temporary_mib: int = 512
    """Of /tmp, where the rest of the sandbox is read-only or `disk_mib` is given. It counts as memory."""
    disk_mib: int | None = None
    """What it can write in all, besides /tmp and what is mounted; None is as much as the disk holds.

    It lies in memory then, which it has besides `memory_mib`, and it ends with a stop.
    """

    def __post_init__(self) -> None:
        _check_range("limits.memory_mib", self.memory_mib, 16, 1 << 24)
        _check_range("limits.cpus", self.cpus, 0.01, 4096)
        _check_range("limits.processes", self.processes, 8, 1 << 22)
        _check_range("limits.temporary_mib", self.temporary_mib, 1, 1 << 24)
        if self.disk_mib is not None:
            _check_range("limits.disk_mib", self.disk_mib, 1, 1 << 24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder or file of the host that the sandbox sees. Nothing else of the host is there."""

    source: Path
    target: str
    writable: bool = False

    def __post_init__(self) -> None:
        if not self.source.is_absolute():
            raise SpecError("mounts.source is not a whole path", "begin it with /")
        if any(mark in str(self.source) for mark in "\0\n"):
            raise SpecError("mounts.source holds a character that no path should", "rename it")
        check_path("mounts.target", self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A sandbox. Raises `SpecError` for one that cannot be."""

    name: str
    image: str
    profile: str | None = None
    """The profile of the rules that holds for it, where they have profiles."""
    user: int = 1000
    group: int = 1000
    workdir: str = WORKSPACE
    """Where commands start; a folder of the sandbox's own that ends with it, unless something is mounted
    there."""
    env: Values = NO_VALUES
    mounts: tuple[Mount, ...] = ()
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    read_only: bool = False
    """Nothing but `workdir`, /tmp and what is mounted can be written."""
    ports: tuple[int, ...] = ()
    """Ports that the rules name, besides 80 and 443: what a client dials there lands at the proxy too."""
    labels: Values = NO_VALUES

    def __post_init__(self) -> None:
        check_name(self.name)
        if not self.image or not self.image.isprintable() or " " in self.image or self.image.startswith("-"):
            raise SpecError("image is not the name of an image", "give its name, with a tag or a digest")
        _check_range("user", self.user, 0, 1 << 31)
        _check_range("group", self.group, 0, 1 << 31)
        check_path("workdir", self.workdir)
        if normpath(self.workdir) == "/":
            raise SpecError("workdir is the whole sandbox", "name a folder in it")
        check_ports(self.ports)
        _check_labels(self.labels)
        targets = [mount.target.rstrip("/") for mount in self.mounts]
        if len(set(targets)) < len(targets):
            raise SpecError("mounts.target names one path twice", "mount one thing there")
        object.__setattr__(self, "env", _variables("env", self.env))
        object.__setattr__(self, "labels", MappingProxyType(dict(self.labels)))

    @property
    def has_read_only_image(self) -> bool:
        """Whether nothing of its image can be written: that was asked for, or its disk is bounded."""
        return self.read_only or self.limits.disk_mib is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """The size of a terminal that a command is run in."""

    columns: int = 80
    rows: int = 24

    def __post_init__(self) -> None:
        _check_range("terminal.columns", self.columns, 1, 10_000)
        _check_range("terminal.rows", self.rows, 1, 10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command in a sandbox. Raises `SpecError` for one that cannot be."""

    argv: tuple[str, ...]
    cwd: str | None = None
    """The `workdir` of the sandbox, if not said."""
    env: Values = NO_VALUES
    input: bytes | BinaryIO | None = None
    """What it reads. None is nothing at all, unless the process is written to."""
    timeout: float | None = None
    """Seconds after which its whole process group is ended, at first politely."""
    grace: float = 2.0
    """Seconds between the polite end and the other."""
    most_output: int = 64 * MIB
    """Bytes that are kept of each stream; the rest is read, and left out."""
    terminal: Terminal | None = None

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise SpecError("argv is empty", "name a program")
        if any("\0" in word for word in self.argv):
            raise SpecError("argv holds a NUL", "leave it out: no program can be given one")
        if self.cwd is not None:
            check_path("cwd", self.cwd)
        if self.timeout is not None:
            _check_range("timeout", self.timeout, 0.001, 10**9)
        _check_range("grace", self.grace, 0, 3600)
        _check_range("most_output", self.most_output, 0, 1 << 40)
        if self.terminal is not None and (self.timeout is not None or self.input is not None):
            raise SpecError(
                "a command in a terminal has neither timeout nor input", "leave them out, or the terminal"
            )
        object.__setattr__(self, "env", _variables("env", self.env))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """What came of a command."""

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""
    duration: float = 0.0
    timed_out: bool = False
    truncated: bool = False
    """There was more output than was to be kept."""

    @property
    def text(self) -> str:
        """The standard output as text."""
        return self.stdout.decode("utf-8", "replace")

    def check(self) -> ExecResult:
        """Return itself; raises `ExecTimeoutError` or `CommandError` unless the status is 0."""
        if self.timed_out:
            raise ExecTimeoutError(
                f"the command was ended after {self.duration:.1f}s", "give it more time, or less to do"
            )
        if self.exit_code:
            raise CommandError(f"the command ended with status {self.exit_code}", "look at its output")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """A sandbox as it is now."""

    name: str
    image: str
    state: State
    profile: str | None = None
    labels: Values = NO_VALUES
    created: datetime | None = None
    exit_code: int | None = None
    """How it ended, where it did by itself."""


EventKind = Literal["created", "started", "died", "out-of-memory", "paused", "resumed", "removed"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a sandbox."""

    kind: EventKind
    sandbox: str


# Checks -------------------------------------------------------------------------------------------


def check_name(name: str) -> None:
    """Refuse a name that cannot stand in a record, a path and a header; raises `SpecError`."""
    if not NAME_PATTERN.fullmatch(name):
        raise SpecError(
            "name is not one for a sandbox",
            "up to 63 lower-case letters, digits, dots, - and _; a letter or digit at both ends",
        )


def check_path(what: str, path: str) -> None:
    """Refuse a path inside a sandbox that is not whole and plain; raises `SpecError`."""
    is_whole = path.startswith("/") and not path.startswith("//") and ".." not in path.split("/")
    if not is_whole or not path.isprintable():
        raise SpecError(f"{what} is not a whole path", "begin it with /, without .. and control characters")


def check_ports(ports: tuple[int, ...]) -> None:
    """Refuse what is no port; raises `SpecError`."""
    for port in ports:
        _check_range("ports", port, 1, 65535)


def check_ready_count(count: int) -> None:
    """Refuse to keep more ready than there should be; raises `SpecError`."""
    _check_range("count", count, 0, MAX_READY)


def _variables(what: str, values: Values) -> Values:
    for name, value in values.items():
        if not _VARIABLE_PATTERN.fullmatch(name):
            raise SpecError(f"{what} holds a name that is none of a variable", "use letters, digits and _")
        if "\0" in value:
            raise SpecError(f"{what}: the value of {name} holds a NUL", "leave it out")
    return MappingProxyType(dict(values))


def _check_labels(labels: Values) -> None:
    for name, value in labels.items():
        if not _LABEL_PATTERN.fullmatch(name) or name.startswith(RESERVED_LABEL_PREFIX):
            raise SpecError(
                "labels holds a name that cannot be",
                f"use letters, digits, dots, -, _ and /, and do not begin with {RESERVED_LABEL_PREFIX}",
            )
        if not value.isprintable() or len(value) > 1000:
            raise SpecError(f"labels: the value of {name} is no short text", "keep it printable")


def _check_range(what: str, value: float, least: float, most: float) -> None:
    if isinstance(value, bool) or not least <= value <= most:
        raise SpecError(
            f"{what} is out of bounds",
            f"give a number from {_format_number(least)} to {_format_number(most)}",
        )


def _format_number(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:g}"
