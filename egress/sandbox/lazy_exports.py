"""The public names of `egress`, imported at their first use, so that `import egress` stays fast."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_RUNTIME_ERRORS: Final = (
    "ArchiveError",
    "CommandError",
    "EngineError",
    "EngineUnavailableError",
    "ExecTimeoutError",
    "ImageMissingError",
    "PathNotFoundError",
    "PortClosedError",
    "SandboxDiedError",
    "SandboxError",
    "SandboxExistsError",
    "SandboxNotFoundError",
    "SandboxStateError",
    "SpecError",
    "UnsupportedError",
)
_HANDLE_ERRORS: Final = (
    "FailedCommandError",
    "GitDeniedError",
    "GitError",
    "GitNotFoundError",
    "GitUnreachableError",
    "LateCommandError",
    "LogEndedError",
    "OutputLostError",
    "PathDeniedError",
    "PathExistsError",
    "PathKindError",
    "PathOutsideError",
    "SessionClosedError",
)

EXPORT_MODULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AsyncSandbox": "egress.sandbox.aio",
        "EgressError": "egress.errors",
        "ExecResult": "egress.runtime.spec",
        "Sandbox": "egress.sandbox.handle",
        "SandboxDiffersError": "egress.fleet.errors",
        "open_fleet": "egress.fleet",
        **dict.fromkeys(_RUNTIME_ERRORS, "egress.runtime.errors"),
        **dict.fromkeys(_HANDLE_ERRORS, "egress.sandbox.errors"),
    }
)
"""The module of each name."""


def attribute(name: str) -> object:
    """Return a public name of `egress`. Raises `AttributeError`."""
    home = EXPORT_MODULES.get(name)
    if home is None:
        raise AttributeError(f"module 'egress' has no attribute {name!r}", name=name, obj=None)
    found: object = getattr(importlib.import_module(home), name)
    return found


def names() -> list[str]:
    """Return all public names of `egress`."""
    return sorted([*EXPORT_MODULES, "__version__"])
