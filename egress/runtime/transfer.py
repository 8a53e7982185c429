"""Files in and out of a sandbox, by its own tar and as its own user: the kernel says what that user may.

What comes out is as hostile as what goes in, so both are sifted. Nothing is held in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, Final, cast

import structlog

from egress.errors import reason_of
from egress.runtime.disk_space import SpaceCheckedFile
from egress.runtime.errors import (
    ArchiveError,
    ExecTimeoutError,
    PathNotFoundError,
    SandboxStateError,
    UnsupportedError,
)
from egress.runtime.protocol import NO_OUTPUT, Output, OutputCallback
from egress.runtime.spec import Command, ExecResult, check_path
from egress.runtime.tar_filter import DEFAULT_ARCHIVE_LIMITS, filter_archive

_log = structlog.get_logger(__name__)

_PUT_COMMAND: Final = ("tar", "-x", "-o", "-f", "-", "-C")
_GET_SCRIPT: Final = (
    'if [ -d "$1" ]; then exec tar -c -f - -C "$1" .; fi; [ -e "$1" ] || exit 44; '
    'cd -- "${1%/*}/" && exec tar -c -f - "./${1##*/}"'
)
_MAX_RAW_BYTES: Final = DEFAULT_ARCHIVE_LIMITS.size * 2
_MISSING_STATUS: Final = 44
_NO_PROGRAM_STATUS: Final = 127
_TAR_TIMEOUT: Final = 3600.0
"""Seconds after which a tar is ended. Whatever runs there as the same user can stop it for ever."""
_CHECK_TIMEOUT: Final = 60.0

Run = Callable[[Command, Output], ExecResult]
"""Runs a command in the sandbox to its end."""


def put(run: Run, name: str, path: str, archive: BinaryIO) -> None:
    """Lay the files of an archive down in a folder of the sandbox of this name; see `Runtime.put`."""
    check_path("path", path)
    with _file_errors(), tempfile.TemporaryFile() as file:
        _sift(archive, file)
        file.seek(0)
        result = run(
            Command(argv=(*_PUT_COMMAND, path), cwd="/", input=file, timeout=_TAR_TIMEOUT), NO_OUTPUT
        )
    if result.timed_out:
        raise _timeout_error(name, path)
    if result.exit_code == _NO_PROGRAM_STATUS:
        raise _no_tar_error(name)
    if result.exit_code:
        words = ("/bin/sh", "-c", '[ -d "$1" ]', "sh", path)
        probe = run(Command(argv=words, cwd="/", timeout=_CHECK_TIMEOUT), NO_OUTPUT)
        if probe.exit_code:
            raise PathNotFoundError(f"there is no folder {path} in the sandbox {name}", "make it first")
        raise SandboxStateError(
            f"not all of the archive could be laid down in {path} of the sandbox {name}",
            "see whether its user may write there, and whether there is room",
        )


@contextmanager
def get(run: Run, name: str, path: str) -> Iterator[BinaryIO]:
    """An archive of what is at a path in the sandbox of this name; see `Runtime.get`."""
    check_path("path", path)
    with ExitStack() as parts:
        with _file_errors(), tempfile.TemporaryFile() as raw:
            file = parts.enter_context(tempfile.TemporaryFile())
            _read(run, name, path, raw)
            raw.seek(0)
            _sift(raw, file)
            file.seek(0)
        yield file


def _read(run: Run, name: str, path: str, raw: BinaryIO) -> None:
    command = Command(
        argv=("/bin/sh", "-c", _GET_SCRIPT, "sh", path), cwd="/", most_output=0, timeout=_TAR_TIMEOUT
    )
    result = run(command, Output(stdout=_bounded_writer(raw)))
    if result.timed_out:
        raise _timeout_error(name, path)
    if result.exit_code == _MISSING_STATUS:
        raise PathNotFoundError(f"there is no {path} in the sandbox {name}", "look at the folder above it")
    if result.exit_code == _NO_PROGRAM_STATUS:
        raise _no_tar_error(name)
    if result.exit_code:
        raise SandboxStateError(
            f"not all of {path} of the sandbox {name} could be read", "see whether its user may read it"
        )


@contextmanager
def _file_errors() -> Iterator[None]:
    """Tell what goes wrong with the files in which archives are kept meanwhile, here on this machine."""
    try:
        yield
    except OSError as error:
        raise SandboxStateError(
            f"the archive cannot be kept on this machine: {reason_of(error)}", "make room for temporary files"
        ) from None


def _sift(source: BinaryIO, target: BinaryIO) -> None:
    found = filter_archive(source, cast("BinaryIO", SpaceCheckedFile(target)))
    if found.omitted:
        _log.info("archive.left_out", count=found.omitted)


def _bounded_writer(file: BinaryIO) -> OutputCallback:
    """Keep output in a file, up to a size that no archive should have.

    Then it is over: a tar of the sandbox's own need never end.
    """
    left = _MAX_RAW_BYTES
    room = SpaceCheckedFile(file)

    def add(data: bytes) -> None:
        nonlocal left
        left -= len(data)
        if left < 0:
            raise ArchiveError(f"the archive holds more than {_MAX_RAW_BYTES} bytes", "copy less at a time")
        room.write(data)

    return add


def _timeout_error(name: str, path: str) -> ExecTimeoutError:
    return ExecTimeoutError(
        f"the tar of the sandbox {name} did not come to its end with {path} within {_TAR_TIMEOUT:g}s",
        "see what its processes do, or copy less at a time",
    )


def _no_tar_error(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"the image of the sandbox {name} has no tar", "use one that has, or read files by exec"
    )
