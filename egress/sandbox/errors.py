"""What can go wrong with files, commands and clones, besides what can go wrong with any sandbox.

As with those of `egress.runtime.errors`, the text holds nothing that a sandbox said, and no secret.
"""

from __future__ import annotations

from egress.runtime.errors import CommandError, ExecTimeoutError, SandboxError
from egress.runtime.spec import ExecResult


class FailedCommandError(CommandError):
    """A command ended with another status than 0. `result` is what came of it, output included."""

    def __init__(self, message: str, hint: str = "", *, result: ExecResult | None = None) -> None:
        super().__init__(message, hint)
        self.result = result or ExecResult(exit_code=1)


class LateCommandError(ExecTimeoutError):
    """A command was ended because its time was over. `result` is what came of it until then."""

    def __init__(self, message: str, hint: str = "", *, result: ExecResult | None = None) -> None:
        super().__init__(message, hint)
        self.result = result or ExecResult(exit_code=124, timed_out=True)


class PathOutsideError(SandboxError):
    """A relative path leads out of the workspace: by `..`, or through a link."""

    code = "path.outside"
    exit_status = 1


class PathKindError(SandboxError):
    """A path is a folder where a file is needed, or the other way round."""

    code = "path.kind"
    exit_status = 1


class PathExistsError(SandboxError):
    """There is something at a path already."""

    code = "path.exists"
    exit_status = 1


class PathDeniedError(SandboxError):
    """The user of the sandbox may not do this with a path, or there is no room for it."""

    code = "path.denied"
    exit_status = 1


class OutputLostError(SandboxError):
    """Output was not read in time, and is gone."""

    code = "output.lost"
    exit_status = 1


class LogEndedError(SandboxError):
    """A process ended before it said what was waited for."""

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
    """The server, or the proxy, does not let this sandbox read the repository."""

    code = "git.denied"


class GitNotFoundError(GitError):
    """There is no such repository, or no such branch in it."""

    code = "git.not_found"


class GitUnreachableError(GitError):
    """The server could not be reached."""

    code = "git.unreachable"


def checked(result: ExecResult) -> ExecResult:
    """Return a result whose status is 0; raises `FailedCommandError` or `LateCommandError` with it."""
    try:
        return result.check()
    except ExecTimeoutError as error:
        raise LateCommandError(error.message, error.hint, result=result) from None
    except CommandError as error:
        raise FailedCommandError(
            error.message, "look at its output: it is in the error's `result`", result=result
        ) from None
