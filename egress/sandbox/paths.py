"""Paths inside a sandbox, as callers give them, and what a sandbox answers about them.

Theory of operation. A relative path begins in the workspace and ends there: whatever `..` and links are in
it, the place it leads to has to be below the workspace, or nothing is done. An absolute path is meant as it
is written. Either way the user of the sandbox does it, and the kernel decides what he may: a link that a
program in the sandbox puts in our way at the last moment leads to nothing that this program could not do.

Paths go to the sandbox as words of a command. None becomes part of a shell's text.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from egress.runtime.errors import (
    ExecTimeoutError,
    PathNotFoundError,
    SandboxError,
    SandboxStateError,
    SpecError,
    UnsupportedError,
)
from egress.runtime.spec import Command, ExecResult
from egress.sandbox.command_runner import CommandRunner
from egress.sandbox.errors import PathDeniedError, PathExistsError, PathKindError, PathOutsideError

FILES_SCRIPT: Final = Path(__file__).with_name("files.sh").read_text(encoding="utf-8")
MISSING_STATUS: Final = 44
"""What is said where nothing is there."""
TEMPORARY_PREFIX: Final = ".egress-"
"""How the names of files begin that are not whole yet."""
NO_FOLDER_STATUS: Final = 45
"""What is said where a part of the path is no folder."""

SHORT_TIMEOUT: Final = 60.0
"""Seconds after which a sandbox has to have done what is soon done."""
LONG_TIMEOUT: Final = 600.0
"""The same for what can be large."""

Where = str | PurePosixPath


def run_verb(
    place: CommandRunner,
    verb: str,
    path: Where,
    *more: str,
    source: bytes | BinaryIO | None = None,
    timeout: float | None = SHORT_TIMEOUT,
) -> bytes:
    """Do something with a path, and return what is said. Raises what `refused` makes of it, and `asked`."""
    result = run_on_path(
        place, path, Command(argv=path_command(verb, path, *more), input=source, timeout=timeout)
    )
    if result.exit_code:
        raise path_error(result.exit_code, path, place.name)
    return result.stdout


def run_on_path(place: CommandRunner, path: Where, command: Command) -> ExecResult:
    """Run what is done with a path. Raises `ExecTimeoutError` where that takes longer than it may.

    Whatever runs there as the same user can stop it, and a caller would wait for ever.
    """
    result = place.run(command)
    if result.timed_out:
        raise ExecTimeoutError(
            f"nothing came of {str(path)!r} in the sandbox {place.name} within {command.timeout:g}s",
            "see what its processes do; where there is much to be done, give `timeout`",
        )
    return result


def resolve(place: CommandRunner, path: Where, make: str = "") -> str:
    """Return where a path leads, as a whole one; the last part of it need not be there.

    `make` says which folders are made that are missing: those "above" it, or "all".
    """
    found = run_verb(place, "resolve", path, make).decode("utf-8", "surrogateescape")[:-1] or "/"
    if not found.isprintable():
        raise PathDeniedError("the place holds a character that no path should", "rename it")
    return found


def path_command(verb: str, path: Where, *more: str) -> tuple[str, ...]:
    """Return the command that does something with a path. Raises `SpecError` for what can be no path."""
    return ("/bin/sh", "-c", FILES_SCRIPT, "sh", verb, *split_root(path), *more)


def split_root(path: Where) -> tuple[str, str]:
    """Return below what a path has to end, nothing for the workspace, and the path."""
    text = str(path)
    if not text or "\0" in text:
        raise SpecError("path is empty, or holds a NUL", "name a file or a folder")
    return ("/" if text.startswith("/") else "", text)


def path_error(status: int, path: Where, name: str) -> SandboxError:
    """Say what a status means."""
    there = f"{str(path)!r} in the sandbox {name}"
    match status:
        case 40:
            return UnsupportedError(
                f"the image of the sandbox {name} has no `stat -c`, or no readlink",
                "use one with the tools of GNU, busybox or toybox",
            )
        case 41:
            return PathOutsideError(f"{there} is a link that leads nowhere but to links", "remove it")
        case 42:
            return PathOutsideError(
                f"{there} leads out of the workspace", "name the place itself, beginning with /"
            )
        case 43:
            return PathExistsError(f"there is something at {there} already", "remove it first")
        case 44:
            return PathNotFoundError(f"there is no {there}", "look at the folder above it")
        case 45:
            return PathKindError(f"a part of {there} is no folder", "look at the folder above it")
        case 46:
            return PathKindError(f"{there} is no file", "name a file")
        case 47:
            return PathDeniedError(
                f"the user of the sandbox may not do this with {there}, or there is no room",
                "look at its permissions, and at what is free",
            )
        case 48:
            return PathKindError(f"{there} is a folder that holds something", "remove it with recursive=True")
        case _:
            return SandboxStateError(
                f"nothing could be done with {there}: a program there ended with status {status}",
                "see whether the image has a POSIX shell and the usual programs, and room for a process",
            )
