"""A secret in a file: a docker or Kubernetes secret, or one of the user's own.

Theory of operation. A file of some hundred bytes is read anew at every look. Comparing its status first
would save microseconds, and miss a second write within one tick of the file system's clock. Rotation by
rename or by swapping a symbolic link is seen whole. A file that is written in place changes under the
reader: then it is read again, and what stands half-written or empty for a moment is refused, so that the
value before it goes on being used for its lifetime.

Must not block on what is no file, and must not read more than it may. Runs in a thread of its own: a file
system that hangs holds up nothing else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from egress.errors import UnreadableError, reason_of
from egress.secrets.source_value import SourceValue, ValueLifetime

MAX_FILE_BYTES = 64 * 1024
POLL_INTERVAL = 1.0
"""Seconds between two looks while the secret is in use."""
DEFAULT_TTL = 3.0
"""Seconds for which the last value is used when the file cannot be read and the rules give no `ttl`."""

_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_MAX_TRIES = 3


class FileSecretSource:
    """The file at one path."""

    __slots__ = ("_path",)

    def __init__(self, path: str, environ: Mapping[str, str]) -> None:
        self._path = _full(path, environ.get("HOME", ""))

    def lifetime(self, ttl: int | None) -> ValueLifetime:
        end = DEFAULT_TTL if ttl is None else float(ttl)
        return ValueLifetime(due=min(POLL_INTERVAL, 0.8 * end), end=end)

    def fetch(self) -> SourceValue:
        if not self._path.startswith("/"):
            raise UnreadableError(
                f"HOME is not set, so {self._path} is not known", "write the full path of the file"
            )
        try:
            return _content(self._path)
        except OSError as error:
            raise _unreadable(self._path, error) from None

    def stop(self) -> None:
        """Do nothing: a read cannot be broken off, and its result is not waited for."""


def _full(path: str, home: str) -> str:
    return f"{home.rstrip('/')}/{path[2:]}" if path.startswith("~/") and home.startswith("/") else path


def _content(path: str) -> SourceValue:
    # Before it is opened: opening alone can have an effect on a device.
    _refuse_other_kinds(path, os.stat(path))  # noqa: PTH116 - follows the links of the path, on purpose
    for _ in range(_MAX_TRIES):
        with open(os.open(path, _OPEN_FLAGS), "rb") as file:  # noqa: PTH123 - a descriptor
            # Looked at again, because another thing may stand at the path by now.
            before = os.fstat(file.fileno())
            _refuse_other_kinds(path, before)
            value = SourceValue(file.read(MAX_FILE_BYTES + 1))
            after = os.fstat(file.fileno())
        if _state(before) == _state(after):
            return value
    raise UnreadableError(
        f"{path} changes while it is read", "write the new value beside it and rename it into place"
    )


def _state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _refuse_other_kinds(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableError(f"{path} is not a plain file", "name the file that holds the secret")
    if status.st_size > MAX_FILE_BYTES:
        raise UnreadableError(
            f"{path} is larger than 64 KiB", "check that it is the file of a credential and not another one"
        )
    # Whoever may write the file decides as whom the sandbox acts. Who may read it is the owner's choice.
    if status.st_mode & stat.S_IWOTH:
        raise UnreadableError(f"{path} can be written by every user", f"chmod o-w {path}")


def _unreadable(path: str, error: OSError) -> UnreadableError:
    if isinstance(error, FileNotFoundError):
        return UnreadableError(f"there is no file {path}", "put the secret there, or correct `from:`")
    if isinstance(error, PermissionError):
        return UnreadableError(f"{path} may not be read", "let the user of the proxy read it")
    return UnreadableError(f"{path} cannot be read: {reason_of(error)}", "check the path")
