"""Values of the runtime's interface: sandboxes, limits, mounts, commands and results. Frozen.

Values are checked when made, and errors name the field. All values are data: none becomes part of a shell's
text. Whether an image exists, or a folder may be mounted, is decided elsewhere.
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

from egress.runtime.argument_types import (
    check_number,
    check_text,
    check_text_mapping,
    check_type,
    check_whole_number,
)
from egress.runtime.errors import CommandError, ExecTimeoutError, SpecError

# A name becomes part of paths, records and headers, so it holds no character with a meaning there.
NAME_PATTERN: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?")
_VARIABLE_PATTERN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL_PATTERN: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,126}[A-Za-z0-9])?")
RESERVED_LABEL_PREFIX: Final = "egress."
"""Reserved prefix: labels of users must not begin with it."""

WORKSPACE: Final = "/workspace"
DEFAULT_USER_ID: Final = 1000
"""The user and group of a sandbox whose creator is root: never root itself."""
TIMED_OUT_STATUS: Final = 124
"""The exit status of a command that was ended by its timeout."""
MIB: Final = 1024 * 1024
MAX_READY: Final = 64
"""The most sandboxes kept ready, of all kinds together."""

State = Literal["created", "running", "paused", "stopped", "asleep"]
"""`asleep` is a state of fleets: stopped, and started again by the next use. No runtime returns it."""
Values = Mapping[str, str]
NO_VALUES: Final[Values] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """Resource limits of a sandbox."""

    memory_mib: int = 2048
    """Memory without swap; a sandbox that needs more is killed."""
    cpus: float = 2.0
    processes: int = 1024
    temporary_mib: int = 512
    """The size of /tmp in MiB, with `read_only` or `disk_mib`. It counts as memory."""
    disk_mib: int | None = None
    """The writable disk in MiB, without /tmp and mounts; None is unlimited.

    A limited disk lies in memory, in addition to `memory_mib`, and is lost at a stop.
    """

    def __post_init__(self) -> None:
        _check_count("limits.memory_mib", self.memory_mib, 16, 1 << 24)
        _check_range("limits.cpus", self.cpus, 0.01, 4096)
        _check_count("limits.processes", self.processes, 8, 1 << 22)
        _check_count("limits.temporary_mib", self.temporary_mib, 1, 1 << 24)
        if self.disk_mib is not None:
            _check_count("limits.disk_mib", self.disk_mib, 1, 1 << 24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder or file of the host that the sandbox sees. No other file of the host is visible."""

    source: Path
    target: str
    writable: bool = False

    def __post_init__(self) -> None:
        check_type("mounts.source", self.source, Path, "a Path")
        if not self.source.is_absolute():
            raise SpecError("mounts.source is not an absolute path", "begin it with /")
        # A NUL cannot stand in a path, and a line end could forge a line where the path is shown.
        if any(mark in str(self.source) for mark in "\0\n"):
            raise SpecError("mounts.source holds an invalid character", "rename it")
        check_path("mounts.target", self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The settings of a sandbox. Raises `SpecError` for impossible ones."""

    name: str
    image: str
    profile: str | None = None
    """The profile of the rules for it, if the rules have profiles."""
    parameters: Values = NO_VALUES
    """Its values for parameters of the rules, which the proxy checks."""
    user: int = DEFAULT_USER_ID
    group: int = DEFAULT_USER_ID
    workdir: str = WORKSPACE
    """The working folder of commands: a folder of the sandbox that ends with it, unless it is mounted."""
    env: Values = NO_VALUES
    mounts: tuple[Mount, ...] = ()
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    read_only: bool = False
    """Whether only `workdir`, /tmp and mounts are writable."""
    ports: tuple[int, ...] = ()
    """Ports of the rules besides 80 and 443: connections to them lead to the proxy too."""
    labels: Values = NO_VALUES

    def __post_init__(self) -> None:
        check_name(self.name)
        check_text("image", self.image)
        # A name that begins with `-` could be taken for an option.
        if not self.image or not self.image.isprintable() or " " in self.image or self.image.startswith("-"):
            raise SpecError("image is not a valid image name", "give its name, with a tag or a digest")
        _check_count("user", self.user, 0, 1 << 31)
        _check_count("group", self.group, 0, 1 << 31)
        if self.profile is not None:
            check_text("profile", self.profile)
        check_text_mapping("params", self.parameters)
        check_path("workdir", self.workdir)
        # `read_only` leaves the working folder writable: as the root folder it would undo that.
        if normpath(self.workdir) == "/":
            raise SpecError("workdir is the root folder", "name a folder in it")
        check_ports(self.ports)
        _check_labels(self.labels)
        for mount in self.mounts:
            check_type("mounts: an item", mount, Mount, "a Mount")
        # Two mounts at one path would hide each other, in an order that depends on the runtime.
        targets = [mount.target.rstrip("/") for mount in self.mounts]
        if len(set(targets)) < len(targets):
            raise SpecError("mounts.target names one path twice", "mount one thing there")
        # A copy: the caller's mapping cannot change after the check.
        object.__setattr__(self, "env", _variables("env", self.env))
        object.__setattr__(self, "labels", MappingProxyType(dict(self.labels)))
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    @property
    def has_read_only_image(self) -> bool:
        """Return whether the image is read-only: on request, or because the disk is limited."""
        return self.read_only or self.limits.disk_mib is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """The size of a command's terminal."""

    columns: int = 80
    rows: int = 24

    def __post_init__(self) -> None:
        _check_count("terminal.columns", self.columns, 1, 10_000)
        _check_count("terminal.rows", self.rows, 1, 10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRights:
    """Rights that one command has by a ticket, in place of those of its sandbox. Only a fleet gives them."""

    profile: str | None = None
    """A profile of the rules; None for that of the sandbox."""
    parameters: Values = NO_VALUES
    """Values for parameters of the rules, which replace those of the sandbox."""
    by: str = ""
    """Who asked, for the record."""
    is_delegated: bool = False
    """Whether the rules have to delegate the profile: whoever asked is not their operator."""

    def __post_init__(self) -> None:
        if self.profile is not None:
            check_text("profile", self.profile)
        check_text_mapping("params", self.parameters)
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    @classmethod
    def asked(cls, profile: str | None, parameters: Values) -> RunRights | None:
        """Return the rights that a caller asks for; None for those of the sandbox."""
        made = cls(profile=profile, parameters=parameters)
        return made if made.profile is not None or made.parameters else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command in a sandbox. Raises `SpecError` for an impossible one."""

    argv: tuple[str, ...]
    cwd: str | None = None
    """The working folder; None is the `workdir` of the sandbox."""
    env: Values = NO_VALUES
    input: bytes | BinaryIO | None = None
    """The input of `exec`. None is empty, unless the process is written to."""
    timeout: float | None = None
    """Seconds after which the whole process group gets SIGTERM."""
    grace: float = 2.0
    """Seconds between SIGTERM and SIGKILL."""
    most_output: int = 64 * MIB
    """Bytes kept of each output; the rest is read and dropped."""
    terminal: Terminal | None = None
    rights: RunRights | None = None
    """Rights of its own; None for those of the sandbox."""

    def __post_init__(self) -> None:
        for word in self.argv:
            check_text("argv: a word", word)
        if not self.argv or not self.argv[0]:
            raise SpecError("argv is empty", "name a program")
        if any("\0" in word for word in self.argv):
            raise SpecError("argv holds a NUL", "omit it: arguments cannot hold NUL")
        if self.cwd is not None:
            check_path("cwd", self.cwd)
        if self.timeout is not None:
            _check_range("timeout", self.timeout, 0.001, 10**9)
        _check_range("grace", self.grace, 0, 3600)
        _check_count("most_output", self.most_output, 0, 1 << 40)
        if self.terminal is not None and (self.timeout is not None or self.input is not None):
            raise SpecError(
                "a command in a terminal takes no timeout and no input", "omit them, or the terminal"
            )
        object.__setattr__(self, "env", _variables("env", self.env))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """The result of a command."""

    exit_code: int
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    duration: float = 0.0
    timed_out: bool = False
    truncated: bool = False
    """Whether output beyond the limit was dropped."""

    @property
    def stdout(self) -> str:
        """The standard output as text. Bytes that are not UTF-8 are replaced by U+FFFD."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """The standard error as text. Bytes that are not UTF-8 are replaced by U+FFFD."""
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def text(self) -> str:
        """The standard output as text: a shorter name of `stdout`."""
        return self.stdout

    def check(self) -> ExecResult:
        """Return the result itself. Raises `ExecTimeoutError` or `CommandError` unless the status is 0."""
        if self.timed_out:
            raise ExecTimeoutError(f"the command timed out after {self.duration:.1f}s", "raise its timeout")
        if self.exit_code:
            raise CommandError(f"the command exited with status {self.exit_code}", "see its output")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """The state of a sandbox."""

    name: str
    image: str
    state: State
    profile: str | None = None
    labels: Values = NO_VALUES
    created: datetime | None = None
    exit_code: int | None = None
    """The exit status of a sandbox that ended by itself."""


EventKind = Literal["created", "started", "died", "out-of-memory", "paused", "resumed", "removed"]


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a sandbox."""

    kind: EventKind
    sandbox: str


# Checks -------------------------------------------------------------------------------------------


def check_name(name: str) -> None:
    """Refuse a name that is unsafe in a record, a path or a header. Raises `SpecError`."""
    check_text("name", name)
    if not NAME_PATTERN.fullmatch(name):
        raise SpecError(
            "name is not a valid name for a sandbox",
            "use up to 63 lower-case letters, digits, dots, - and _, with a letter or digit at both ends",
        )


def check_path(what: str, path: str) -> None:
    """Refuse a path inside a sandbox that is not absolute and plain. Raises `SpecError`."""
    check_text(what, path)
    # `..` could leave the folder that was checked, and `//` may have a meaning of its own.
    is_whole = path.startswith("/") and not path.startswith("//") and ".." not in path.split("/")
    if not is_whole or not path.isprintable():
        raise SpecError(
            f"{what} is not an absolute path", "begin it with /, without .. and control characters"
        )


def check_ports(ports: tuple[int, ...]) -> None:
    """Refuse invalid ports. Raises `SpecError`."""
    for port in ports:
        _check_count("ports", port, 1, 65535)


def check_ready_count(count: int) -> None:
    """Refuse to keep too many sandboxes ready. Raises `SpecError`."""
    _check_count("count", count, 0, MAX_READY)


def _variables(what: str, values: Values) -> Values:
    check_text_mapping(what, values)
    for name, value in values.items():
        if not _VARIABLE_PATTERN.fullmatch(name):
            raise SpecError(f"{what} holds an invalid variable name", "use letters, digits and _")
        if "\0" in value:
            raise SpecError(f"{what}: the value of {name} holds a NUL", "remove it")
    return MappingProxyType(dict(values))


def _check_labels(labels: Values) -> None:
    check_text_mapping("labels", labels)
    for name, value in labels.items():
        if not _LABEL_PATTERN.fullmatch(name) or name.startswith(RESERVED_LABEL_PREFIX):
            raise SpecError(
                "labels holds an invalid name",
                f"use letters, digits, dots, -, _ and /, and do not begin with {RESERVED_LABEL_PREFIX}",
            )
        if not value.isprintable() or len(value) > 1000:
            raise SpecError(
                f"labels: the value of {name} is not a short text", "use at most 1000 printable characters"
            )


def _check_count(what: str, value: int, least: int, most: int) -> None:
    check_whole_number(what, value)
    _check_range(what, value, least, most)


def _check_range(what: str, value: float, least: float, most: float) -> None:
    check_number(what, value)
    # The comparison with a NaN is false.
    if not least <= value <= most:
        raise SpecError(
            f"{what} is out of range",
            f"use a number from {_format_number(least)} to {_format_number(most)}",
        )


def _format_number(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:g}"
