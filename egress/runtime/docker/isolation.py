"""What the engine runs a sandbox with, where its operator wants more than the usual.

That is another runtime of the engine's, or a seccomp profile of his own. Both are
passed on as they are. Whether a profile keeps anything in, is for whoever wrote it: an engine takes an empty
one.
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
    """What a sandbox's container is run with."""

    runtime: str = ""
    """A name that the engine knows, such as `runsc`; empty is the engine's usual one."""
    seccomp: str = field(default="", repr=False)
    """A profile in the engine's form; empty is the engine's own."""

    @property
    def options(self) -> tuple[str, ...]:
        """For the engine's SecurityOpt."""
        return (f"seccomp={self.seccomp}",) if self.seccomp else ()


DEFAULT_ISOLATION: Final = Isolation()


def choose_isolation(engine: DockerEngine, runtime: str | None, seccomp: Path | None) -> Isolation:
    """What was asked for. Raises `UnsupportedError` for a runtime that there is not, and `SpecError`."""
    if runtime is not None and runtime not in (there := engine.runtimes()):
        raise UnsupportedError(
            f"the engine has no runtime {runtime}",
            f"register it in the engine's daemon.json; it has {', '.join(sorted(there)) or 'none'}",
        )
    return Isolation(runtime or "", read_profile(seccomp) if seccomp is not None else "")


def read_profile(path: Path) -> str:
    """A seccomp profile, as one line. Raises `UnreadableError`, and `SpecError` for what cannot be one."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_PROFILE_BYTES + 1)
        found = json.loads(data) if len(data) <= _MAX_PROFILE_BYTES else None
    except OSError as error:
        raise UnreadableError(
            f"the seccomp profile {path} cannot be read: {reason_of(error)}", "name a file that is there"
        ) from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("defaultAction"), str):
        raise SpecError(
            f"{path} is no seccomp profile", "begin with the profile of the engine: it has a defaultAction"
        )
    return json.dumps(found, separators=(",", ":"))


def cautions(major: int, version: str, isolation: Isolation) -> tuple[str, ...]:
    """What an engine does not keep a sandbox from, for its operator."""
    if major >= _VSOCK_BLOCKING_MAJOR or isolation.seccomp:
        return ()
    caution = (
        f"AF_VSOCK is open on engine {version}: upgrade it to {_VSOCK_BLOCKING_MAJOR}, or give --seccomp"
    )
    return (caution,)
