"""Errors of files, commands and clones, besides the errors of every sandbox.

As in `egress.runtime.errors`, messages hold no text from a sandbox, and no secret.
"""

from __future__ import annotations

from egress.runtime.errors import CommandError, ExecTimeoutError, SandboxError
from egress.runtime.spec import ExecResult


class FailedCommandError(CommandError):
    """A command exited with a status other than 0. `result` holds its result, with the output."""

    def __init__(self, message: str, hint: str = "", *, result: ExecResult | None = None) -> None:
        super().__init__(message, hint)
        # A result is always there, so that callers never meet None.
        self.result = result or ExecResult(exit_code=1)


class LateCommandError(ExecTimeoutError):
    """A command timed out. `result` holds its result so far."""

    def __init__(self, message: str, hint: str = "", *, result: ExecResult | None = None) -> None:
        super().__init__(message, hint)
        self.result = result or ExecResult(exit_code=124, timed_out=True)


class PathOutsideError(SandboxError):
    """A relative path leads out of the workspace: by `..`, or through a link."""

    code = "path.outside"
    exit_status = 1


class PathKindError(SandboxError):
    """A path is a folder where a file is needed, or the reverse."""

    code = "path.kind"
    exit_status = 1


class FolderTooLargeError(SandboxError):
    """A folder has more entries than one list may have."""

    code = "path.too_large"
    exit_status = 1


class PathExistsError(SandboxError):
    """The path exists already."""

    code = "path.exists"
    exit_status = 1


class PathDeniedError(SandboxError):
    """The sandbox's user may not do this with a path, or the disk is full."""

    code = "path.denied"
    exit_status = 1


class OutputLostError(SandboxError):
    """Output was not read in time, and was dropped."""

    code = "output.lost"
    exit_status = 1


class LogEndedError(SandboxError):
    """A process ended before the expected line of output or port."""

    code = "log.ended"
    exit_status = 1


class SessionClosedError(SandboxError):
    """The session was closed."""

    code = "session.closed"
    exit_status = 1


class GitError(SandboxError):
    """A clone failed."""

    code = "git.failed"
    exit_status = 1


class GitDeniedError(GitError):
    """The server or the proxy does not let this sandbox read the repository."""

    code = "git.denied"


class GitNotFoundError(GitError):
    """The repository, or its branch, does not exist."""

    code = "git.not_found"


class GitUnreachableError(GitError):
    """The server could not be reached."""

    code = "git.unreachable"


def checked(result: ExecResult) -> ExecResult:
    """Return a result with status 0. Raises `FailedCommandError` or `LateCommandError` with the result."""
    try:
        return result.check()
    except ExecTimeoutError as error:
        raise LateCommandError(error.message, error.hint, result=result) from None
    except CommandError as error:
        raise FailedCommandError(
            error.message, "see its output in the error's `result`", result=result
        ) from None
