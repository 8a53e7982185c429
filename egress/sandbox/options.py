"""Converts arguments of the Python API into values of a runtime.

Sizes are numbers of MiB or strings such as 2g; variables are checked by `egress.runtime.environ`; host
folders are named one by one. Of the caller's environment only requested variables are read.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from io import TextIOBase
from math import isfinite
from pathlib import Path
from typing import BinaryIO, Final, cast

from egress.runtime.argument_types import check_text, check_type
from egress.runtime.environ import RequestedVariable, SandboxKind, build_environment
from egress.runtime.errors import SpecError, SpecTypeError
from egress.runtime.spec import DEFAULT_USER_ID, NO_VALUES, Command, Mount, RunRights, SandboxLimits, Values
from egress.scrub import Needles

Variables = Mapping[str, str | None]
"""Variables by name. None copies the caller's own value."""
Volumes = Mapping[str, str] | Mapping[Path, str] | Mapping[str | Path, str] | Iterable[Mount]
"""Host folders by their paths in the sandbox: `{"/srv/data": "/data"}`; the suffix `:rw` makes one writable.
"""
Line = str | Sequence[str]
"""A string for a shell, or the words of one command."""
Input = str | bytes | BinaryIO
Size = float | str
"""A number of MiB, or a string such as 512m or 2g."""

_SIZE_PATTERN: Final = re.compile(r"(\d+(?:\.\d+)?) ?([kmgt])(?:i?b)?", re.IGNORECASE)
_MIB_PER_UNIT: Final = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}
# Most people write for bash. The line is an argument of this script, and never a part of its text.
_SHELL_SCRIPT: Final = 'command -v bash >/dev/null 2>&1 && exec bash -c "$1" bash; exec /bin/sh -c "$1" sh'
_SIZE_FORM: Final = "a number of MiB, or a string such as 512m or 2g"
_NO_NEEDLES: Final = Needles({})


def random_name() -> str:
    """Return a random, unused name."""
    return f"box-{secrets.token_hex(5)}"


def random_id() -> str:
    """Return a random id of a session."""
    return secrets.token_hex(8)


def caller_ids() -> tuple[int, int]:
    """User and group inside: the caller's, so that mounts are writable; never root."""
    user, group = os.getuid(), os.getgid()
    return (user or DEFAULT_USER_ID, group or DEFAULT_USER_ID)


def command_words(line: Line) -> tuple[str, ...]:
    """Return the words to run: a string runs in a shell, a list runs directly. Raises `SpecTypeError`."""
    if isinstance(line, str):
        return ("/bin/sh", "-c", _SHELL_SCRIPT, "sh", line)
    if not _is_list_of_text(line):
        raise SpecTypeError(
            "command is neither a string nor a list of strings",
            'write "make test" for a shell, or ["make", "test"] to run a program without one',
        )
    return tuple(line)


def shown_command(words: Sequence[str]) -> str:
    """Return a command as its user wrote it: without the shell around a line of `command_words`."""
    *shell, line = words
    return line if tuple(shell) == command_words("")[:-1] else " ".join(words)


def as_bytes(what: str, data: object) -> bytes:
    """Return text or bytes as bytes. Raises `SpecTypeError`."""
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise SpecTypeError(f"{what} is neither text nor bytes", "pass a string, bytes or a file opened with rb")


def as_input(source: Input | None) -> bytes | BinaryIO | None:
    """Return input in the form that a command takes. Raises `SpecTypeError`."""
    if source is None or _is_binary_file(source):
        return cast("BinaryIO | None", source)
    return as_bytes("input", source)


def _is_list_of_text(value: object) -> bool:
    # Bytes are a sequence too, of numbers.
    return isinstance(value, Sequence) and all(isinstance(each, str) for each in value)


def _is_binary_file(value: object) -> bool:
    return callable(getattr(value, "read", None)) and not isinstance(value, TextIOBase)


def variables(asked: Variables | None, caller: Callable[[], Values]) -> Values:
    """Return the requested variables, checked. `caller` is called only if a value has to be copied.

    Raises `UsageError`, which names variables and never values.
    """
    if asked is None:
        return NO_VALUES
    check_type("env", asked, Mapping, 'a mapping such as {"NAME": "value"}')
    for name, value in asked.items():
        check_text("env: a name", name)
        if value is not None:
            check_text("env: a value", value)
    if not asked:
        return NO_VALUES
    own = caller() if None in asked.values() else {}
    # Passed as values: no other variable of the caller comes along.
    wanted = [
        RequestedVariable(name, own.get(name) if value is None else value) for name, value in asked.items()
    ]
    return build_environment({}, {}, _NO_NEEDLES, kind=SandboxKind.CONTAINER, asked=wanted).variables


def mib(what: str, size: Size) -> int:
    """Return a size in MiB; a number is already one. Raises `SpecError`."""
    check_type(what, size, (str, int, float), f"a size: {_SIZE_FORM}")
    if not isinstance(size, str):
        # A NaN and the infinities have no integer.
        if not isfinite(size):
            raise _size_error(what)
        return int(size)
    found = _SIZE_PATTERN.fullmatch(size.strip())
    if found is None:
        raise _size_error(what)
    return int(float(found[1]) * _MIB_PER_UNIT[found[2].lower()])


def _size_error(what: str) -> SpecError:
    return SpecError(f"{what} is not a size", f"use {_SIZE_FORM}")


def limits(
    *,
    memory: Size | None = None,
    cpus: float | None = None,
    pids: int | None = None,
    size: Size | None = None,
    temporary: Size | None = None,
) -> SandboxLimits:
    """Return the limits of a sandbox; a missing one has its default."""
    # Missing limits take the defaults of the class, so they are written in one place only.
    usual = SandboxLimits()
    return SandboxLimits(
        memory_mib=usual.memory_mib if memory is None else mib("memory", memory),
        cpus=usual.cpus if cpus is None else cpus,
        processes=usual.processes if pids is None else pids,
        temporary_mib=usual.temporary_mib if temporary is None else mib("temporary", temporary),
        disk_mib=None if size is None else mib("size", size),
    )


def mounts(volumes: Volumes | None) -> tuple[Mount, ...]:
    """Return the mounts; read-only unless marked otherwise. Raises `SpecError`."""
    if volumes is None:
        return ()
    check_type("volumes", volumes, (Mapping, Iterable), 'a mapping such as {"/srv/data": "/data"}')
    # A string is iterable too; `Spec` refuses its characters, which are no mounts.
    if not isinstance(volumes, Mapping):
        return tuple(volumes)
    for source, target in volumes.items():
        check_type("volumes: a folder of this machine", source, (str, Path), "a string or a Path")
        check_text("volumes: a path in the sandbox", target)
    return tuple(_mount(Path(source), target) for source, target in volumes.items())


def _mount(source: Path, target: str) -> Mount:
    shown = f"volumes: {str(source)[:200]!r}"
    path, _, mode = target.partition(":")
    if mode not in ("", "ro", "rw"):
        raise SpecError(f"{shown}: invalid mode after the colon", "write :ro, :rw or nothing")
    # Relative paths are refused: the working directory may be another one at the next call.
    if not source.is_absolute() or ".." in source.parts:
        raise SpecError(
            f"{shown} is not an absolute path without ..", "write Path(...).expanduser().resolve()"
        )
    try:
        return Mount(source=source, target=path, writable=mode == "rw")
    except SpecError as error:
        message = error.message.replace("mounts.source", "it").replace("mounts.target", "its place inside")
        raise SpecError(f"{shown}: {message}", error.hint) from None


def command(
    line: Line,
    *,
    cwd: str | None = None,
    env: Values = NO_VALUES,
    timeout: float | None = None,
    source: Input | None = None,
    most_output: int | None = None,
    rights: RunRights | None = None,
) -> Command:
    """Return a command as a runtime takes it. Raises `SpecError`."""
    made = Command(
        argv=command_words(line), cwd=cwd, env=env, timeout=timeout, input=as_input(source), rights=rights
    )
    return made if most_output is None else replace(made, most_output=most_output)
