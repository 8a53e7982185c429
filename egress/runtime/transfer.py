"""Copies files into and out of a sandbox, by its own tar as its own user: the kernel limits the access.

Archives are hostile in both directions, so both are filtered. Nothing is held in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, Final, cast

from egress.errors import reason_of
from egress.logger import EventLogger
from egress.runtime.disk_space import SpaceCheckedFile
from egress.runtime.errors import (
    ArchiveTooLargeError,
    ExecTimeoutError,
    PathNotFoundError,
    SandboxError,
    SandboxStateError,
    UnsupportedError,
)
from egress.runtime.protocol import NO_OUTPUT, Output, OutputCallback
from egress.runtime.spec import Command, ExecResult, check_path
from egress.runtime.tar_filter import DEFAULT_ARCHIVE_LIMITS, filter_archive

_log = EventLogger(__name__)

_PUT_COMMAND: Final = ("tar", "-x", "-o", "-f", "-", "-C")
_GET_SCRIPT: Final = (
    'if [ -d "$1" ]; then exec tar -c -f - -C "$1" .; fi; [ -e "$1" ] || exit 44; '
    'cd -- "${1%/*}/" && exec tar -c -f - "./${1##*/}"'
)
_MAX_RAW_BYTES: Final = DEFAULT_ARCHIVE_LIMITS.size * 2
_MISSING_STATUS: Final = 44
_NO_PROGRAM_STATUS: Final = 127
_TAR_TIMEOUT: Final = 3600.0
"""Seconds after which a tar is ended. Processes of the same user can stop it for ever."""
_CHECK_TIMEOUT: Final = 60.0

Run = Callable[[Command, Output], ExecResult]
"""Runs a command in the sandbox to its end."""


def put(run: Run, name: str, path: str, archive: BinaryIO) -> None:
    """Unpack an archive into a folder of this sandbox; see `Runtime.put`."""
    check_path("path", path)
    # Filtered completely before the sandbox sees the first byte: a hostile archive is refused as a whole.
    with _file_errors(), tempfile.TemporaryFile() as file:
        _sift(archive, file)
        file.seek(0)
        result = run(
            Command(argv=(*_PUT_COMMAND, path), cwd="/", input=file, timeout=_TAR_TIMEOUT), NO_OUTPUT
        )
    # Statuses come from the sandbox: they choose the message, and nothing else.
    if result.timed_out:
        raise _timeout_error(name, path)
    if result.exit_code == _NO_PROGRAM_STATUS:
        raise _no_tar_error(name)
    if result.exit_code:
        # tar's own message comes from the sandbox, so the cause is found out with a second command.
        words = ("/bin/sh", "-c", '[ -d "$1" ]', "sh", path)
        probe = run(Command(argv=words, cwd="/", timeout=_CHECK_TIMEOUT), NO_OUTPUT)
        if probe.exit_code:
            raise PathNotFoundError(f"no folder {path} in the sandbox {name}", "create it first")
        raise SandboxStateError(
            f"the archive was not completely unpacked in {path} of the sandbox {name}",
            "check that its user may write there, and that the disk is not full",
        )


@contextmanager
def get(run: Run, name: str, path: str) -> Iterator[BinaryIO]:
    """An archive of a path in this sandbox; see `Runtime.get`."""
    with ExitStack() as parts:
        with _file_errors():
            file = parts.enter_context(tempfile.TemporaryFile())
            write_archive(run, name, path, file, _MAX_RAW_BYTES)
            file.seek(0)
        yield file


def write_archive(
    run: Run, name: str, path: str, target: BinaryIO, max_bytes: int, omit: Collection[str] = ()
) -> None:
    """Write an archive of a path in this sandbox to an open file, without the entries named in `omit`.

    Raises `ArchiveTooLargeError` as soon as the sandbox sends more than `max_bytes`.
    """
    check_path("path", path)
    with _file_errors(), tempfile.TemporaryFile() as raw:
        _read(run, name, path, raw, max_bytes)
        raw.seek(0)
        _sift(raw, target, omit)


def _read(run: Run, name: str, path: str, raw: BinaryIO, max_bytes: int) -> None:
    command = Command(
        argv=("/bin/sh", "-c", _GET_SCRIPT, "sh", path), cwd="/", most_output=0, timeout=_TAR_TIMEOUT
    )
    result = run(command, Output(stdout=_bounded_writer(raw, max_bytes)))
    if result.timed_out:
        raise _timeout_error(name, path)
    if result.exit_code == _MISSING_STATUS:
        raise PathNotFoundError(f"no {path} in the sandbox {name}", "list the folder above it")
    if result.exit_code == _NO_PROGRAM_STATUS:
        raise _no_tar_error(name)
    if result.exit_code:
        raise SandboxStateError(
            f"{path} of the sandbox {name} could not be read completely", "check that its user may read it"
        )


@contextmanager
def _file_errors() -> Iterator[None]:
    """Report problems with temporary files on this machine."""
    try:
        yield
    except SandboxError:
        # A timeout is an `OSError`, too, and has nothing to do with these files.
        raise
    except OSError as error:
        raise SandboxStateError(
            f"cannot store the archive on this machine: {reason_of(error)}", "free space for temporary files"
        ) from None


def _sift(source: BinaryIO, target: BinaryIO, omit: Collection[str] = ()) -> None:
    found = filter_archive(source, cast("BinaryIO", SpaceCheckedFile(target)), omit=omit)
    if found.omitted:
        _log.info("archive.left_out", count=found.omitted)


def _bounded_writer(file: BinaryIO, max_bytes: int) -> OutputCallback:
    """Write output to a file, up to a size: a hostile tar in the sandbox may never end."""
    left = max_bytes
    checked_file = SpaceCheckedFile(file)

    def add(data: bytes) -> None:
        nonlocal left
        left -= len(data)
        if left < 0:
            raise ArchiveTooLargeError(
                f"the archive holds more than {max_bytes} bytes", "copy less at a time"
            )
        checked_file.write(data)

    return add


def _timeout_error(name: str, path: str) -> ExecTimeoutError:
    return ExecTimeoutError(
        f"tar in the sandbox {name} did not finish {path} within {_TAR_TIMEOUT:g}s",
        "check its processes, or copy less at a time",
    )


def _no_tar_error(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"the image of the sandbox {name} has no tar", "use an image with tar, or read files by exec"
    )
