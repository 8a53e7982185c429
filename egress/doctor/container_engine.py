"""Check the container engine of this machine, if one answers: whether it is recent enough for sandboxes.

Only its version is asked for, over its unix socket. A missing engine is no fault: the proxy needs none. A
remote engine is never asked: its address can lead anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from egress.doctor.diagnosis import Diagnosis, note, ok, warning
from egress.doctor.proxy_setup import ProxySetup
from egress.errors import reason_of
from egress.secrets.daemon_thread import run_in_thread
from egress.unix.http_connection import ASK_ERRORS, ask_json
from egress.unix.stream_socket import connect

MIN_ENGINE_VERSION: Final = 23
ANSWER_TIMEOUT: Final = 2.0
"""Seconds for each socket."""

_SOCKET: Final = "docker.sock"
_MAX_ANSWER_BYTES: Final = 256 * 1024
# Bounded, because the answer of another program is printed.
_VERSION: Final = re.compile(r"(\d{1,4})\.(\d{1,4})[\w.+~-]{0,40}", re.ASCII)


async def check(setup: ProxySetup) -> list[Diagnosis]:
    """Check the engine that `docker` would talk to."""
    named = setup.environ.get("DOCKER_HOST", "")
    # A TCP address could send the question anywhere.
    if named and not named.startswith("unix://"):
        return [note("docker", "DOCKER_HOST names a remote engine, which is not checked")]
    places = [Path(named.removeprefix("unix://"))] if named else _usual(setup.environ)
    return [await run_in_thread(lambda: _first(places))]


def _usual(environ: Mapping[str, str]) -> list[Path]:
    """Return the default sockets of engines: the system's, and the user's."""
    own = environ.get("XDG_RUNTIME_DIR", "")
    return [Path("/var/run") / _SOCKET, *([Path(own) / _SOCKET] if own.startswith("/") else [])]


def _first(places: Sequence[Path]) -> Diagnosis:
    """Return the diagnosis of the first engine that answers."""
    found = note("docker", "no engine answers (the proxy needs none)")
    for place in filter(_is_socket, places):
        try:
            return judged(place, _version(place))
        except ASK_ERRORS as error:
            fact = f"{place} does not answer: {reason_of(error)}"
            found = note("docker", fact, "start the engine, or join its group")
    return found


def judged(place: Path, answer: Mapping[str, object]) -> Diagnosis:
    """Judge an engine by its own description."""
    # Podman answers in Docker's API, but counts its versions differently.
    parts = answer.get("Components")
    names = [part.get("Name") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    match = _VERSION.fullmatch(str(answer.get("Version")))
    # Podman has its own version numbers, which the floor does not cover.
    if any("podman" in str(name).lower() for name in names):
        return note("docker", f"Podman answers at {place}; its version is not checked")
    if match is None:
        return warning("docker", f"{place} answers without naming its version", "see `docker version`")
    # AF_VSOCK reaches the hypervisor past all network rules; newer default profiles forbid it.
    if int(match[1]) < MIN_ENGINE_VERSION:
        return warning(
            "docker",
            f"{match[0]} at {place} lets sandboxes open AF_VSOCK sockets",
            f"use version {MIN_ENGINE_VERSION} or newer, or a seccomp profile with --seccomp",
        )
    return ok("docker", f"{match[0]} at {place}")


def _is_socket(place: Path) -> bool:
    try:
        return place.is_socket()
    except OSError:
        return False


def _version(place: Path) -> Mapping[str, object]:
    return ask_json(lambda: connect(place, ANSWER_TIMEOUT), "GET", "/version", None, _MAX_ANSWER_BYTES).body
