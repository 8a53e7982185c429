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

from egress.fleet.protocol import FleetInfo
from egress.runtime.errors import EngineUnavailableError, SpecError, UnsupportedError
from egress.runtime.protocol import Provisioner, Runtime
from egress.runtime.proxy_client import ProxyClient

RuntimeKind = Literal["docker", "namespace"]
RUNTIME_VARIABLE: Final = "EGRESS_RUNTIME"
ENGINE_SOCKET: Final = Path("/var/run/docker.sock")
_RUNTIME_KINDS: Final[tuple[RuntimeKind, ...]] = ("docker", "namespace")
_ISOLATION_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class RuntimeParameters:
    """What a runtime is made with."""

    gateway: ProxyClient
    home: Path
    """A folder for files of sandboxes, of this user alone."""
    dress: Provisioner
    guarded: tuple[Path, ...] = ()
    """Folders of the host that are never mounted."""
    seccomp: Path | None = None
    """A profile for containers, in the place of the engine's own."""


@dataclass(frozen=True, slots=True)
class RuntimeChoice:
    """A kind of sandboxes, and why it is that."""

    kind: RuntimeKind
    why: str
    isolation: str | None = None
    """What the engine runs its containers with, where another one than its own was asked for: `runsc`."""


def read_kind(asked: str | None, environ_value: str | None) -> str | None:
    """The kind that was asked for: by an argument, else by the variable. Raises `SpecError` for no kind.

    What is no kind of ours is one of the engine's, such as `runsc`: whether it has that is its to say.
    """
    for kind, name in ((asked, "runtime"), (environ_value, RUNTIME_VARIABLE)):
        if kind:
            if not _ISOLATION_NAME.fullmatch(kind):
                raise SpecError(
                    f"{name} names no kind of sandboxes",
                    f"name {', '.join(_RUNTIME_KINDS)}, or one of the engine's",
                )
            return kind
    return None


def choose_runtime(asked: str | None, engine: Path = ENGINE_SOCKET) -> RuntimeChoice:
    """Choose what there is. Raises `EngineUnavailableError` or `UnsupportedError` for what was asked for."""
    if asked == "namespace":
        return RuntimeChoice("namespace", "as asked for")
    try:
        version = _engine_version(engine)
    except (EngineUnavailableError, UnsupportedError) as error:
        if asked is not None:
            raise
        return RuntimeChoice("namespace", error.message)
    if asked not in (None, "docker"):
        return RuntimeChoice("docker", f"with {asked}, as asked for", asked)
    return RuntimeChoice("docker", "as asked for" if asked else f"engine {version} answers")


def check_choice(
    choice: RuntimeChoice, seccomp: Path | None, images: Sequence[str] = (), engine: Path = ENGINE_SOCKET
) -> None:
    """Raise what is wrong with a choice, as far as it can be told before a proxy is started."""
    if choice.kind == "namespace":
        _check_profile(choice, seccomp)
        from egress.runtime.namespace.image_folder import image_root  # noqa: PLC0415 - only where it is chosen

        for image in images:
            image_root(image)
    elif seccomp is not None or choice.isolation is not None or images:
        _check_engine(choice, seccomp, images, engine)


def _check_profile(choice: RuntimeChoice, seccomp: Path | None) -> None:
    if choice.kind == "namespace" and seccomp is not None:
        raise SpecError("a seccomp profile is for containers alone", "namespaces have one of their own")


def _check_engine(choice: RuntimeChoice, seccomp: Path | None, images: Sequence[str], engine: Path) -> None:
    from egress.runtime.docker.engine import DockerEngine  # noqa: PLC0415 - only where it is chosen
    from egress.runtime.docker.isolation import choose_isolation  # noqa: PLC0415 - likewise

    found = DockerEngine(engine)
    try:
        choose_isolation(found, choice.isolation, seccomp)
        for image in images:
            found.image_id(image)
    finally:
        found.close()


def open_runtime(
    choice: RuntimeChoice, place: RuntimeParameters, engine: Path = ENGINE_SOCKET
) -> tuple[Runtime, FleetInfo]:
    """Make the runtime, and say what it is and what it does not keep a sandbox from.

    Raises what keeps it from being made.
    """
    _check_profile(choice, place.seccomp)
    runtime = (
        _open_namespace(place)
        if choice.kind == "namespace"
        else _open_docker(place, choice.isolation, engine)
    )
    cautions = getattr(runtime, "cautions", ())
    return runtime, FleetInfo(kind=choice.kind, why=choice.why, cautions=tuple(map(str, cautions)))


def _engine_version(engine: Path) -> str:
    from egress.runtime.docker.engine import DockerEngine  # noqa: PLC0415 - only where it is looked for

    found = DockerEngine(engine)
    try:
        return found.version
    finally:
        found.close()


def _open_docker(place: RuntimeParameters, isolation: str | None, engine: Path) -> Runtime:
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


def _open_namespace(place: RuntimeParameters) -> Runtime:
    from egress.runtime.namespace.runtime import NamespaceRuntime  # noqa: PLC0415 - only where it is chosen

    return NamespaceRuntime(place.gateway, place.home, place.dress, guarded=place.guarded)
