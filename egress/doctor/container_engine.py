"""Check the container engine of this machine, if one answers: whether it is recent enough for sandboxes.

Only its version is asked for, over its unix socket. A missing engine is no fault: the proxy needs none. An
engine on another machine is never asked: its address can lead anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from egress.doctor.diagnosis import Diagnosis, note, ok, warning
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.errors import reason_of
from egress.runtime.docker.engine_socket import (
    EngineSocket,
    engine_sockets,
    is_socket,
    unfit_engine,
)
from egress.runtime.errors import SandboxError
from egress.secrets.daemon_thread import run_in_thread
from egress.unix.http_connection import ASK_ERRORS, ask_json
from egress.unix.stream_socket import connect

MIN_ENGINE_VERSION: Final = 23
ANSWER_TIMEOUT: Final = 2.0
"""Seconds for each socket."""

_MAX_ANSWER_BYTES: Final = 256 * 1024
# Bounded, because the answer of another program is printed.
_VERSION: Final = re.compile(r"(\d{1,4})\.(\d{1,4})[\w.+~-]{0,40}", re.ASCII)


async def check(setup: ProxyUnderCheck) -> list[Diagnosis]:
    """Check the engine that sandboxes would use."""
    try:
        places = engine_sockets(setup.environ)
    except SandboxError as error:
        return [note("docker", error.message, error.hint)]
    return [await run_in_thread(lambda: _first(places))]


def _first(places: Sequence[EngineSocket]) -> Diagnosis:
    """Return the diagnosis of the first engine that answers."""
    found = note("docker", "no engine answers (the proxy needs none)")
    if places[0].named_by:
        error = places[0].no_answer()
        found = note("docker", error.message, error.hint)
    for place in places:
        if not is_socket(place.path):
            continue
        try:
            return judged(place.path, _version(place.path))
        except ASK_ERRORS as error:
            fact = f"{place.path} does not answer: {reason_of(error)}"
            found = note("docker", fact, "start the engine, or join its group")
    return found


def judged(place: Path, answer: Mapping[str, object]) -> Diagnosis:
    """Judge an engine by its own description."""
    match = _VERSION.fullmatch(str(answer.get("Version")))
    if unfit := unfit_engine(place, answer):
        return note("docker", unfit.message, unfit.hint)
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


def _version(place: Path) -> Mapping[str, object]:
    return ask_json(lambda: connect(place, ANSWER_TIMEOUT), "GET", "/version", None, _MAX_ANSWER_BYTES).body
