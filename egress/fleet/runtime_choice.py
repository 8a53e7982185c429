"""Chooses the kind of sandboxes: containers if an engine answers, namespaces otherwise.

A kind that was asked for by name is never replaced. Modules of runtimes are imported when chosen: the Docker
runtime imports the whole SDK.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from egress.fleet.protocol import FleetInfo
from egress.runtime.docker.engine_socket import ENGINE_SOCKET, engine_sockets, is_socket
from egress.runtime.errors import EngineUnavailableError, SandboxError, SpecError, UnsupportedError
from egress.runtime.protocol import Provisioner, Runtime
from egress.runtime.proxy_client import ProxyClient

if TYPE_CHECKING:
    from egress.runtime.docker.runtime import ExpectedSpec

RuntimeKind = Literal["docker", "namespace"]
"""The kinds that a proxy of this machine serves."""
RUNTIME_VARIABLE: Final = "EGRESS_RUNTIME"
KUBERNETES_KIND: Final = "kubernetes"
"""The kind whose proxy runs in a cluster: no proxy of this machine can serve its sandboxes."""
_RUNTIME_KINDS: Final = ("docker", "namespace", KUBERNETES_KIND)
_ISOLATION_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class RuntimeParameters:
    """The arguments that both runtimes take."""

    proxy: ProxyClient
    home: Path
    """A folder for files of sandboxes, for this user alone."""
    provision: Provisioner
    guarded: tuple[Path, ...] = ()
    """Folders of the host that are never mounted."""
    seccomp: Path | None = None
    """A seccomp profile for containers, instead of the engine's own."""
    clock: Callable[[], float] | None = None
    """The clock of the machine, by which kept sandboxes expire."""
    keeps: bool = False
    """Whether sandboxes may outlive the runtime. Namespaces cannot."""
    expected: ExpectedSpec | None = None
    """The single sandbox that is expected in containers, so that it is made ahead, and nothing for others."""


@dataclass(frozen=True, slots=True)
class RuntimeChoice:
    """A kind of sandboxes, and the reason for it."""

    kind: RuntimeKind
    why: str
    isolation: str | None = None
    """Another runtime of the engine, such as `runsc`; None for the engine's default."""
    engine: Path = ENGINE_SOCKET
    """The socket of the engine."""


def read_kind(asked: str | None, environ_value: str | None) -> str | None:
    """The requested kind: the argument, else the variable. Raises `SpecError` for an invalid name.

    A name that Egress does not know is one of the engine's runtimes, such as `runsc`: the engine checks it.
    """
    for kind, name in ((asked, "runtime"), (environ_value, RUNTIME_VARIABLE)):
        if kind:
            # The engine gets this name, so only plain names pass.
            if not _ISOLATION_NAME.fullmatch(kind):
                raise SpecError(
                    f"{name} is not the name of a runtime",
                    f"use {', '.join(_RUNTIME_KINDS)}, or a runtime of the engine",
                )
            return kind
    return None


def choose_runtime(asked: str | None, environ: Mapping[str, str]) -> RuntimeChoice:
    """Choose a runtime; `environ` may name the engine.

    Raises `EngineUnavailableError` or `UnsupportedError` for a kind that was asked for.
    """
    if asked == "namespace":
        return RuntimeChoice("namespace", "requested")
    if asked == KUBERNETES_KIND:
        # Never taken for a runtime of the engine: whoever can have pods opens them before.
        raise UnsupportedError(
            "this command has no sandboxes on Kubernetes", "name docker or namespace with --runtime"
        )
    try:
        engine, version = _first_engine(environ)
    except (EngineUnavailableError, UnsupportedError) as error:
        if asked is not None:
            raise
        return RuntimeChoice("namespace", error.message)
    if asked not in (None, "docker"):
        return RuntimeChoice("docker", f"{asked}, requested", asked, engine)
    return RuntimeChoice("docker", "requested" if asked else f"engine {version} answers", engine=engine)


def check_choice(choice: RuntimeChoice, seccomp: Path | None, images: Sequence[str] = ()) -> None:
    """Raise every problem of a choice that shows before a proxy is started."""
    if choice.kind == "namespace":
        _check_profile(choice, seccomp)
        from egress.runtime.namespace.image_folder import image_root  # noqa: PLC0415 - only where it is chosen

        for image in images:
            image_root(image)
    elif seccomp is not None or choice.isolation is not None or images:
        _check_engine(choice, seccomp, images)


def _check_profile(choice: RuntimeChoice, seccomp: Path | None) -> None:
    if choice.kind == "namespace" and seccomp is not None:
        raise SpecError(
            "a seccomp profile needs the docker runtime", "omit it: namespaces have a built-in filter"
        )


def _check_engine(choice: RuntimeChoice, seccomp: Path | None, images: Sequence[str]) -> None:
    from egress.runtime.docker.engine import DockerEngine  # noqa: PLC0415 - only where it is chosen
    from egress.runtime.docker.isolation import choose_isolation  # noqa: PLC0415 - likewise

    found = DockerEngine(choice.engine)
    try:
        choose_isolation(found, choice.isolation, seccomp)
        for image in images:
            found.image_id(image)
    finally:
        found.close()


def open_runtime(choice: RuntimeChoice, parameters: RuntimeParameters) -> tuple[Runtime, FleetInfo]:
    """Make the runtime, and describe it with the gaps of its isolation.

    Raises the error that prevents it.
    """
    _check_profile(choice, parameters.seccomp)
    runtime = (
        _open_namespace(parameters)
        if choice.kind == "namespace"
        else _open_docker(parameters, choice.isolation, choice.engine)
    )
    engine = choice.engine if choice.kind == "docker" else None
    about = FleetInfo(kind=choice.kind, why=choice.why, cautions=cautions_of(runtime), engine=engine)
    return runtime, about


def cautions_of(runtime: Runtime) -> tuple[str, ...]:
    """The warnings of a runtime for its operator, as of now."""
    return tuple(map(str, getattr(runtime, "cautions", ())))


def _first_engine(environ: Mapping[str, str]) -> tuple[Path, str]:
    """Return the first engine that answers, and its version."""
    from egress.runtime.docker.engine import DockerEngine  # noqa: PLC0415 - only where it is looked for

    places = engine_sockets(environ)
    failure: SandboxError = places[0].no_answer()
    for place in places:
        # A place without a socket says less than a socket where nothing answers.
        if not is_socket(place.path):
            continue
        try:
            found = DockerEngine(place.path)
        except EngineUnavailableError as error:
            failure = place.no_answer() if place.named_by else error
            continue
        try:
            return place.path, found.version
        finally:
            found.close()
    raise failure


def _open_docker(parameters: RuntimeParameters, isolation: str | None, engine: Path) -> Runtime:
    from egress.runtime.docker.runtime import DockerRuntime  # noqa: PLC0415 - only where it is chosen

    return DockerRuntime(
        parameters.proxy,
        parameters.home,
        parameters.provision,
        engine=engine,
        guarded=parameters.guarded,
        runtime=isolation,
        seccomp=parameters.seccomp,
        expected=parameters.expected,
        keeps=parameters.keeps,
        clock=parameters.clock,
    )


def _open_namespace(parameters: RuntimeParameters) -> Runtime:
    from egress.runtime.namespace.runtime import NamespaceRuntime  # noqa: PLC0415 - only where it is chosen

    return NamespaceRuntime(
        parameters.proxy, parameters.home, parameters.provision, guarded=parameters.guarded
    )
