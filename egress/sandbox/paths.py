"""Paths inside a sandbox, and the file operations on them.

Theory of operation. A relative path starts in the workspace and ends there: whatever `..` and links it holds,
the resolved path has to be below the workspace, or the operation is refused. An absolute path is used as
written. The sandbox's user runs the operation, and the kernel limits his access: a link that a program
creates at the last moment leads to nothing that the program could not reach itself.

Paths are passed as arguments of a command. None becomes part of a shell's text.
"""

from __future__ import annotations

from pathlib import Path, PurePath, PurePosixPath
from typing import BinaryIO, Final

from egress.runtime.argument_types import check_type
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
"""The exit status for a missing path."""
TEMPORARY_PREFIX: Final = ".egress-"
"""The prefix of files that are not complete yet."""
NO_FOLDER_STATUS: Final = 45
"""The exit status for a part of the path that is not a folder."""

SHORT_TIMEOUT: Final = 60.0
"""Seconds for an operation that is fast in a healthy sandbox."""
LONG_TIMEOUT: Final = 600.0
"""Seconds for an operation on large files."""

Where = str | PurePosixPath


def run_verb(
    place: CommandRunner,
    verb: str,
    path: Where,
    *more: str,
    source: bytes | BinaryIO | None = None,
    timeout: float | None = SHORT_TIMEOUT,
) -> bytes:
    """Run an operation on a path, and return its output. Raises errors of `path_error` and `run_on_path`."""
    result = run_on_path(
        place, path, Command(argv=path_command(verb, path, *more), input=source, timeout=timeout)
    )
    if result.exit_code:
        raise path_error(result.exit_code, path, place.name)
    return result.stdout_bytes


def run_on_path(place: CommandRunner, path: Where, command: Command) -> ExecResult:
    """Run the command of an operation. Raises `ExecTimeoutError`.

    Processes of the same user can stop it, and the caller would otherwise wait for ever.
    """
    result = place.run(command)
    if result.timed_out:
        raise ExecTimeoutError(
            f"{str(path)!r} in the sandbox {place.name} did not finish within {command.timeout:g}s",
            "check its processes; for large files pass `timeout`",
        )
    return result


def resolve(place: CommandRunner, path: Where, make: str = "") -> str:
    """Return the resolved, absolute path; its last part need not exist.

    `make` names the missing folders to create: those "above" it, or "all".
    """
    found = run_verb(place, "resolve", path, make).decode("utf-8", "surrogateescape")[:-1] or "/"
    # The path comes out of the sandbox: control characters could forge lines of a log or a terminal.
    if not found.isprintable():
        raise PathDeniedError("the path holds an invalid character", "rename it")
    return found


def path_command(verb: str, path: Where, *more: str) -> tuple[str, ...]:
    """Return the command of an operation. Raises `SpecError` for an invalid path."""
    return ("/bin/sh", "-c", FILES_SCRIPT, "sh", verb, *split_root(path), *more)


def split_root(path: Where) -> tuple[str, str]:
    """Return the root below which a path has to end (empty for the workspace), and the path."""
    check_type("path", path, (str, PurePath), "a string or a path")
    text = str(path)
    if not text or "\0" in text:
        raise SpecError("path is empty or holds a NUL", "name a file or a folder")
    return ("/" if text.startswith("/") else "", text)


def path_error(status: int, path: Where, name: str) -> SandboxError:
    """The error for an exit status of files.sh."""
    # The numbers are those of files.sh, whose head lists them.
    there = f"{str(path)!r} in the sandbox {name}"
    # Messages hold no output of the script, which a program in the sandbox could have written.
    match status:
        case 40:
            return UnsupportedError(
                f"the image of the sandbox {name} lacks `stat -c` or readlink",
                "use an image with the tools of GNU, busybox or toybox",
            )
        case 41:
            return PathOutsideError(f"{there} is a loop of links", "remove it")
        case 42:
            return PathOutsideError(
                f"{there} leads out of the workspace", "name the target by its absolute path"
            )
        case 43:
            return PathExistsError(f"{there} exists already", "remove it first")
        case 44:
            return PathNotFoundError(f"no {there}", "list the folder above it")
        case 45:
            return PathKindError(f"a part of {there} is not a folder", "list the folder above it")
        case 46:
            return PathKindError(f"{there} is not a file", "name a file")
        case 47:
            return PathDeniedError(
                f"the sandbox's user may not do this with {there}, or the disk is full",
                "check its permissions and the free space",
            )
        case 48:
            return PathKindError(f"{there} is a folder that is not empty", "remove it with recursive=True")
        case _:
            return SandboxStateError(
                f"the operation on {there} failed with status {status}",
                "check that the image has a POSIX shell and its usual programs, and the limit of processes",
            )
