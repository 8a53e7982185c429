"""Finds the socket of the container engine where the Docker client would look for it.

`DOCKER_HOST` comes first, then the context of the client, and only then the usual sockets of Docker, Colima
and Podman. An engine that the user named is never replaced by another one. An engine on another machine is
refused, because mounts and the sockets of a sandbox lie on this one.

Reads the environment that it is given and the client's settings; connects to nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from egress.runtime.errors import EngineUnavailableError, UnsupportedError

ENGINE_SOCKET: Final = Path("/var/run/docker.sock")
HOST_VARIABLE: Final = "DOCKER_HOST"
CONTEXT_VARIABLE: Final = "DOCKER_CONTEXT"
_CONFIG_VARIABLE: Final = "DOCKER_CONFIG"
_DEFAULT_CONTEXT: Final = "default"
_UNIX_SCHEME: Final = "unix://"
_MAX_SETTINGS_BYTES: Final = 1024 * 1024
_MAX_SHOWN_CHARS: Final = 80
_CURE: Final = "use Docker on this machine, or sandboxes that need no engine: --runtime namespace"


@dataclass(frozen=True, slots=True)
class EngineSocket:
    """A place where an engine may answer."""

    path: Path
    named_by: str = ""
    """What names it, such as `DOCKER_HOST`; empty for a usual place."""

    def no_answer(self) -> EngineUnavailableError:
        """Say that no engine answers here."""
        if not self.named_by:
            return EngineUnavailableError(
                f"no engine answers at {self.path}",
                f"start the engine, or name its socket in {HOST_VARIABLE}",
            )
        return EngineUnavailableError(
            f"no engine answers at {self.path}, which {self.named_by} names",
            f"start that engine, or change {self.named_by}",
        )


def engine_sockets(environ: Mapping[str, str]) -> tuple[EngineSocket, ...]:
    """Return the places to try, in this order; only one if the user named it.

    Raises `UnsupportedError` for an engine on another machine, and `EngineUnavailableError` for a context
    that the client does not know.
    """
    if named := environ.get(HOST_VARIABLE):
        return (EngineSocket(_local_path(named, HOST_VARIABLE), HOST_VARIABLE),)
    settings = _settings_folder(environ)
    context = environ.get(CONTEXT_VARIABLE) or _current_context(settings)
    if context and context != _DEFAULT_CONTEXT:
        named_by = f"the docker context {_shown(context)}"
        return (EngineSocket(_local_path(_endpoint(settings, context), named_by), named_by),)
    return tuple(EngineSocket(path) for path in dict.fromkeys(_usual_places(environ)))


def find_engine(environ: Mapping[str, str]) -> Path:
    """Return the first place that has a socket. Raises as `engine_sockets`, and if there is none."""
    places = engine_sockets(environ)
    for place in places:
        if is_socket(place.path):
            return place.path
    raise places[0].no_answer()


def is_socket(path: Path) -> bool:
    """Return whether a socket is there, as far as this user can see."""
    try:
        return path.is_socket()
    except OSError:
        return False


def unfit_engine(place: Path, version: Mapping[str, object]) -> UnsupportedError | None:
    """Return why the engine that describes itself so cannot run sandboxes; None without a reason."""
    number = _shown(str(version.get("Version")))
    parts = version.get("Components")
    names = [part.get("Name") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    # Podman speaks Docker's API. It was tried in version 4.3, and ignored the options of networks.
    if any("podman" in str(name).lower() for name in names):
        return UnsupportedError(
            f"Podman {number} answers at {place}, and ignores settings that close a sandbox's network", _CURE
        )
    # An engine in a virtual machine (Colima, Docker Desktop) has a kernel of its own, and sees neither the
    # sockets nor the processes of this machine.
    kernel = version.get("KernelVersion")
    if isinstance(kernel, str) and kernel and kernel != os.uname().release:
        return UnsupportedError(
            f"the engine {number} at {place} runs in a virtual machine, where it cannot reach the proxy",
            _CURE,
        )
    return None


def _usual_places(environ: Mapping[str, str]) -> Iterator[Path]:
    yield ENGINE_SOCKET
    own, home = environ.get("XDG_RUNTIME_DIR", ""), environ.get("HOME", "")
    # Relative paths are ignored: they would name another folder after each `cd`.
    if own.startswith("/"):
        yield Path(own, "docker.sock")
    if home.startswith("/"):
        yield from (Path(home, place) for place in (".docker/run/docker.sock", ".docker/desktop/docker.sock"))
        yield Path(home, ".colima/default/docker.sock")
    # Podman comes last, because it answers in the API of Docker and is not Docker.
    if own.startswith("/"):
        yield Path(own, "podman/podman.sock")
    yield Path("/run/podman/podman.sock")


def _local_path(address: str, named_by: str) -> Path:
    path = address.removeprefix(_UNIX_SCHEME)
    if address.startswith(_UNIX_SCHEME) and path.startswith("/"):
        return Path(path)
    # The address is not shown: it may hold a password.
    raise UnsupportedError(
        f"{named_by} names an engine that is not at a socket of this machine",
        f"sandboxes need an engine of this machine: unset it, or name one like {_UNIX_SCHEME}{ENGINE_SOCKET}",
    )


# Settings of the Docker client ------------------------------------------------------------------


def _settings_folder(environ: Mapping[str, str]) -> Path | None:
    named = environ.get(_CONFIG_VARIABLE) or f"{environ.get('HOME', '')}/.docker"
    return Path(named) if named.startswith("/") else None


def _current_context(settings: Path | None) -> str:
    found = _read(settings / "config.json").get("currentContext") if settings is not None else None
    return found if isinstance(found, str) else ""


def _endpoint(settings: Path | None, context: str) -> str:
    """Return the address of a context's engine."""
    # The client names the folder of a context by a digest, so no name can lead out of it.
    digest = hashlib.sha256(context.encode("utf-8", "surrogateescape")).hexdigest()
    known = _read(settings / "contexts" / "meta" / digest / "meta.json") if settings is not None else {}
    endpoints = known.get("Endpoints")
    engine = endpoints.get("docker") if isinstance(endpoints, dict) else None
    host = engine.get("Host") if isinstance(engine, dict) else None
    if not isinstance(host, str):
        raise EngineUnavailableError(
            f"the docker context {_shown(context)} is not known here",
            f"`docker context ls` lists them; choose one with {CONTEXT_VARIABLE} or `docker context use`",
        )
    return host


def _read(path: Path) -> Mapping[str, object]:
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_MAX_SETTINGS_BYTES))
    except (OSError, ValueError, RecursionError):
        # The client works without settings, too.
        return {}
    return found if isinstance(found, dict) else {}


def _shown(name: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in name[:_MAX_SHOWN_CHARS])
