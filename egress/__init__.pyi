# What type checkers see of `egress`: the names are loaded when they are first asked for.

from egress.errors import EgressError, UnreadableError, UsageError
from egress.fleet import open_fleet, open_remote
from egress.fleet.errors import SandboxDiffersError
from egress.runtime.errors import (
    ArchiveError,
    CommandError,
    EngineError,
    EngineUnavailableError,
    ExecTimeoutError,
    ImageMissingError,
    PathNotFoundError,
    PortClosedError,
    SandboxDiedError,
    SandboxError,
    SandboxExistsError,
    SandboxNotFoundError,
    SandboxStateError,
    SandboxTimeoutError,
    SpecError,
    SpecTypeError,
    UnsupportedError,
)
from egress.runtime.spec import ExecResult
from egress.sandbox.aio import AsyncSandbox
from egress.sandbox.errors import (
    FailedCommandError,
    GitDeniedError,
    GitError,
    GitNotFoundError,
    GitUnreachableError,
    LateCommandError,
    LogEndedError,
    OutputLostError,
    PathDeniedError,
    PathExistsError,
    PathKindError,
    PathOutsideError,
    SessionClosedError,
)
from egress.sandbox.handle import Sandbox

__all__ = [
    "ArchiveError",
    "AsyncSandbox",
    "CommandError",
    "EgressError",
    "EngineError",
    "EngineUnavailableError",
    "ExecResult",
    "ExecTimeoutError",
    "FailedCommandError",
    "GitDeniedError",
    "GitError",
    "GitNotFoundError",
    "GitUnreachableError",
    "ImageMissingError",
    "LateCommandError",
    "LogEndedError",
    "OutputLostError",
    "PathDeniedError",
    "PathExistsError",
    "PathKindError",
    "PathNotFoundError",
    "PathOutsideError",
    "PortClosedError",
    "Sandbox",
    "SandboxDiedError",
    "SandboxDiffersError",
    "SandboxError",
    "SandboxExistsError",
    "SandboxNotFoundError",
    "SandboxStateError",
    "SandboxTimeoutError",
    "SessionClosedError",
    "SpecError",
    "SpecTypeError",
    "UnreadableError",
    "UnsupportedError",
    "UsageError",
    "__version__",
    "open_fleet",
    "open_remote",
]

__version__: str
