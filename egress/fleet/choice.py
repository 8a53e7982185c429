"""Which kind of sandboxes there are to be: containers where an engine answers, namespaces elsewhere.

What was asked for by name is not replaced by anything else. Modules of runtimes are loaded when they are
chosen: the one of containers brings a whole library with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from egress.fleet.protocol import About
from egress.runtime.errors import EngineUnavailableError, SpecError, UnsupportedError
from egress.runtime.gateway import Gateway
from egress.runtime.protocol import Dresser, Runtime

Kind = Literal["docker", "namespace"]
VARIABLE: Final = "EGRESS_RUNTIME"
ENGINE: Final = Path("/var/run/docker.sock")
_KINDS: Final[tuple[Kind, ...]] = ("docker", "namespace")


@dataclass(frozen=True, slots=True)
class Place:
    """What a runtime is made with."""

    gateway: Gateway
    home: Path
    """A folder for files of sandboxes, of this user alone."""
    dress: Dresser
    guarded: tuple[Path, ...] = ()
    """Folders of the host that are never mounted."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A kind of sandboxes, and why it is that."""

    kind: Kind
    why: str


def read_kind(asked: str | None, environ_value: str | None) -> Kind | None:
    """The kind that was asked for: by an argument, else by the variable. Raises `SpecError` for no kind."""
    for kind, name in ((asked, "runtime"), (environ_value, VARIABLE)):
        if kind:
            found = next((each for each in _KINDS if each == kind), None)
            if found is None:
                raise SpecError(f"{name} names no kind of sandboxes", f"name {' or '.join(_KINDS)}")
            return found
    return None


def choose(asked: Kind | None, engine: Path = ENGINE) -> Choice:
    """Choose what there is. Raises `EngineUnavailableError` or `UnsupportedError` for what was asked for."""
    if asked == "namespace":
        return Choice("namespace", "as asked for")
    try:
        version = _engine_version(engine)
    except (EngineUnavailableError, UnsupportedError) as error:
        if asked == "docker":
            raise
        return Choice("namespace", error.message)
    return Choice("docker", "as asked for" if asked else f"engine {version} answers")


def open_runtime(choice: Choice, place: Place, engine: Path = ENGINE) -> tuple[Runtime, About]:
    """Make the runtime, and say what it is and what it does not keep a sandbox from.

    Raises what keeps it from being made.
    """
    runtime = _docker(place, engine) if choice.kind == "docker" else _namespace(place)
    cautions = getattr(runtime, "cautions", ())
    return runtime, About(kind=choice.kind, why=choice.why, cautions=tuple(map(str, cautions)))


def _engine_version(engine: Path) -> str:
    from egress.runtime.docker.engine import Engine  # noqa: PLC0415 - only where it is looked for

    found = Engine(engine)
    try:
        return found.version
    finally:
        found.close()


def _docker(place: Place, engine: Path) -> Runtime:
    from egress.runtime.docker.runtime import DockerRuntime  # noqa: PLC0415 - only where it is chosen

    return DockerRuntime(place.gateway, place.home, place.dress, engine=engine, guarded=place.guarded)


def _namespace(place: Place) -> Runtime:
    from egress.runtime.namespace.runtime import NamespaceRuntime  # noqa: PLC0415 - only where it is chosen

    return NamespaceRuntime(place.gateway, place.home, place.dress, guarded=place.guarded)
