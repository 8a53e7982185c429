"""Extra isolation for sandboxes: another runtime of the engine, or a seccomp profile of the operator.

Both are passed on unchanged. The operator answers for the profile: an engine accepts an empty one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from egress.errors import UnreadableError, reason_of
from egress.runtime.docker.engine import DockerEngine
from egress.runtime.errors import SpecError, UnsupportedError

_MAX_PROFILE_BYTES: Final = 4 * 1024 * 1024
_VSOCK_BLOCKING_MAJOR: Final = 23


@dataclass(frozen=True, slots=True)
class Isolation:
    """The isolation of a sandbox's container."""

    runtime: str = ""
    """A runtime of the engine, such as `runsc`; empty for the default."""
    seccomp: str = field(default="", repr=False)
    """A seccomp profile as JSON; empty for the engine's own."""

    @property
    def options(self) -> tuple[str, ...]:
        """The entries for the engine's SecurityOpt."""
        return (f"seccomp={self.seccomp}",) if self.seccomp else ()


DEFAULT_ISOLATION: Final = Isolation()


def choose_isolation(engine: DockerEngine, runtime: str | None, seccomp: Path | None) -> Isolation:
    """The requested isolation. Raises `UnsupportedError` for an unknown runtime, and `SpecError`."""
    if runtime is not None and runtime not in (there := engine.runtimes()):
        raise UnsupportedError(
            f"the engine has no runtime {runtime}",
            f"register it in the engine's daemon.json; it has {', '.join(sorted(there)) or 'none'}",
        )
    return Isolation(runtime or "", read_profile(seccomp) if seccomp is not None else "")


def read_profile(path: Path) -> str:
    """A seccomp profile as one line. Raises `UnreadableError`, and `SpecError` for an invalid profile."""
    try:
        # A byte more than allowed: a longer file shows by its length, and is not read whole.
        with path.open("rb") as file:
            data = file.read(_MAX_PROFILE_BYTES + 1)
        found = json.loads(data) if len(data) <= _MAX_PROFILE_BYTES else None
    except OSError as error:
        raise UnreadableError(
            f"cannot read the seccomp profile {path}: {reason_of(error)}", "name an existing file"
        ) from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("defaultAction"), str):
        raise SpecError(
            f"{path} is not a seccomp profile",
            "start from the engine's default profile: it has a defaultAction",
        )
    return json.dumps(found, separators=(",", ":"))


def cautions(major: int, version: str, isolation: Isolation) -> tuple[str, ...]:
    """The gaps that this engine leaves in the isolation, for its operator."""
    if major >= _VSOCK_BLOCKING_MAJOR or isolation.seccomp:
        return ()
    caution = (
        f"Docker {version} lets sandboxes open AF_VSOCK sockets; use {_VSOCK_BLOCKING_MAJOR}+"
        f" or --seccomp FILE"
    )
    return (caution,)
