"""Converts arguments of the Python API into values of a runtime.

Sizes are numbers of MiB or strings such as 2g; variables are checked by `egress.runtime.environ`; host
folders are named one by one. Of the caller's environment only requested variables are read.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from egress.runtime.environ import RequestedVariable, SandboxKind, build_environment
from egress.runtime.errors import SpecError
from egress.runtime.spec import NO_VALUES, Command, Mount, SandboxLimits, Values
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
_NO_NEEDLES: Final = Needles({})
DEFAULT_USER_ID: Final = 1000
"""The user of a sandbox whose creator is root: never root itself."""


def random_name() -> str:
    """Return a random, unused name."""
    return f"box-{secrets.token_hex(5)}"


def caller_ids() -> tuple[int, int]:
    """User and group inside: the caller's, so that mounts are writable; never root."""
    user, group = os.getuid(), os.getgid()
    return (user or DEFAULT_USER_ID, group or DEFAULT_USER_ID)


def command_words(line: Line) -> tuple[str, ...]:
    """Return the words to run: a string runs in a shell, a list runs directly."""
    return ("/bin/sh", "-c", line) if isinstance(line, str) else tuple(line)


def as_input(source: Input | None) -> bytes | BinaryIO | None:
    """Return input in the form that a command takes."""
    return source.encode() if isinstance(source, str) else source


def variables(asked: Variables | None, caller: Callable[[], Values]) -> Values:
    """Return the requested variables, checked. `caller` is called only if a value has to be copied.

    Raises `UsageError`, which names variables and never values.
    """
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
    if isinstance(size, bool):
        raise _size_error(what)
    if not isinstance(size, str):
        return int(size)
    found = _SIZE_PATTERN.fullmatch(size.strip())
    if found is None:
        raise _size_error(what)
    return int(float(found[1]) * _MIB_PER_UNIT[found[2].lower()])


def _size_error(what: str) -> SpecError:
    return SpecError(f"{what} is not a size", "use a number of MiB, or a string such as 512m or 2g")


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
    if not isinstance(volumes, Mapping):
        return tuple(volumes)
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
) -> Command:
    """Return a command as a runtime takes it. Raises `SpecError`."""
    made = Command(argv=command_words(line), cwd=cwd, env=env, timeout=timeout, input=as_input(source))
    if most_output is None:
        return made
    return Command(
        argv=made.argv, cwd=cwd, env=env, timeout=timeout, input=made.input, most_output=most_output
    )
