"""Which kind of sandboxes there are to be: containers where an engine answers, namespaces elsewhere.

What was asked for by name is not replaced by anything else. Modules of runtimes are loaded when they are
chosen: the one of containers brings a whole library with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Place:
    """What a runtime is made with."""

    gateway: Gateway
    home: Path
    """A folder for files of sandboxes, of this user alone."""
    dress: Dresser
    guarded: tuple[Path, ...] = ()
    """Folders of the host that are never mounted."""
    seccomp: Path | None = None
    """A profile for containers, in the place of the engine's own."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A kind of sandboxes, and why it is that."""

    kind: Kind
    why: str
    isolation: str | None = None
    """What the engine runs its containers with, where another one than its own was asked for: `runsc`."""


def read_kind(asked: str | None, environ_value: str | None) -> str | None:
    """The kind that was asked for: by an argument, else by the variable. Raises `SpecError` for no kind.

    What is no kind of ours is one of the engine's, such as `runsc`: whether it has that is its to say.
    """
    for kind, name in ((asked, "runtime"), (environ_value, VARIABLE)):
        if kind:
            if not _NAME.fullmatch(kind):
                raise SpecError(
                    f"{name} names no kind of sandboxes", f"name {', '.join(_KINDS)}, or one of the engine's"
                )
            return kind
    return None


def choose(asked: str | None, engine: Path = ENGINE) -> Choice:
    """Choose what there is. Raises `EngineUnavailableError` or `UnsupportedError` for what was asked for."""
    if asked == "namespace":
        return Choice("namespace", "as asked for")
    try:
        version = _engine_version(engine)
    except (EngineUnavailableError, UnsupportedError) as error:
        if asked is not None:
            raise
        return Choice("namespace", error.message)
    if asked not in (None, "docker"):
        return Choice("docker", f"with {asked}, as asked for", asked)
    return Choice("docker", "as asked for" if asked else f"engine {version} answers")


def check(choice: Choice, seccomp: Path | None, images: Sequence[str] = (), engine: Path = ENGINE) -> None:
    """Raise what is wrong with a choice, as far as it can be told before a proxy is started."""
    if choice.kind == "namespace":
        _check_profile(choice, seccomp)
        from egress.runtime.namespace.images import folder  # noqa: PLC0415 - only where it is chosen

        for image in images:
            folder(image)
    elif seccomp is not None or choice.isolation is not None or images:
        _check_engine(choice, seccomp, images, engine)


def _check_profile(choice: Choice, seccomp: Path | None) -> None:
    if choice.kind == "namespace" and seccomp is not None:
        raise SpecError("a seccomp profile is for containers alone", "namespaces have one of their own")


def _check_engine(choice: Choice, seccomp: Path | None, images: Sequence[str], engine: Path) -> None:
    from egress.runtime.docker.engine import Engine  # noqa: PLC0415 - only where it is chosen
    from egress.runtime.docker.isolation import asked_for  # noqa: PLC0415 - likewise

    found = Engine(engine)
    try:
        asked_for(found, choice.isolation, seccomp)
        for image in images:
            found.image_id(image)
    finally:
        found.close()


def open_runtime(choice: Choice, place: Place, engine: Path = ENGINE) -> tuple[Runtime, About]:
    """Make the runtime, and say what it is and what it does not keep a sandbox from.

    Raises what keeps it from being made.
    """
    _check_profile(choice, place.seccomp)
    runtime = _namespace(place) if choice.kind == "namespace" else _docker(place, choice.isolation, engine)
    cautions = getattr(runtime, "cautions", ())
    return runtime, About(kind=choice.kind, why=choice.why, cautions=tuple(map(str, cautions)))


def _engine_version(engine: Path) -> str:
    from egress.runtime.docker.engine import Engine  # noqa: PLC0415 - only where it is looked for

    found = Engine(engine)
    try:
        return found.version
    finally:
        found.close()


def _docker(place: Place, isolation: str | None, engine: Path) -> Runtime:
    from egress.runtime.docker.runtime import DockerRuntime  # noqa: PLC0415 - only where it is chosen

    return DockerRuntime(
        place.gateway,
        place.home,
        place.dress,
        engine=engine,
        guarded=place.guarded,
        runtime=isolation,
        seccomp=place.seccomp,
    )


def _namespace(place: Place) -> Runtime:
    from egress.runtime.namespace.runtime import NamespaceRuntime  # noqa: PLC0415 - only where it is chosen

    return NamespaceRuntime(place.gateway, place.home, place.dress, guarded=place.guarded)
