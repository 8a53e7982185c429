"""The client of a fleet's proxy: asks its control socket, and holds the answers to what the API says."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec

from egress.control_client import ASK_TIMEOUT, ask_proxy
from egress.errors import EgressError, UnreadableError
from egress.fleet.errors import GrantBeyondError, GrantRefusedError
from egress.fleet.protocol import FleetInfo
from egress.runtime.errors import GatewayError, GatewayRefusedError, SpecError
from egress.unix.http_connection import JsonAnswer

_STATUS_TIMEOUT: Final = 5.0
MAX_QUESTIONS: Final = 8
_PLACES: Final = threading.BoundedSemaphore(MAX_QUESTIONS)
"""Questions of clients at a time: the control socket has few places, and `egress kill` has to find one."""

_REFUSALS: Final[dict[int, type[EgressError]]] = {
    HTTPStatus.BAD_REQUEST: SpecError,
    HTTPStatus.FORBIDDEN: GrantBeyondError,
    HTTPStatus.CONFLICT: GrantRefusedError,
}


def ask(folder: Path, target: str) -> JsonAnswer:
    """Ask the proxy whose sockets are in this folder. Raises `GatewayError` without an answer."""
    return _request(folder, "GET", target, None, _STATUS_TIMEOUT)


def find_secrets(folder: Path, texts: Sequence[str]) -> JsonAnswer:
    """Ask the proxy which of these texts hold a secret that it knows; the answer gives their indexes.

    The proxy first fetches values that it does not have yet, which may take a while. Raises as `ask` does.
    """
    return _request(folder, "POST", "/held", {"texts": list(texts)}, ASK_TIMEOUT)


def ask_fleet_proxy(
    about: FleetInfo, method: str, target: str, body: Mapping[str, object] | None = None
) -> JsonAnswer:
    """Ask the proxy of a fleet. Raises `GatewayError` without an answer, and for a fleet without a proxy."""
    if about.runtime_dir is None:
        raise GatewayError("these sandboxes have no proxy", "open them with `egress.open_fleet`")
    with _PLACES:
        return _request(about.runtime_dir, method, target, body, ASK_TIMEOUT)


def typed_answer[T: msgspec.Struct](fields: Mapping[str, object], answer: type[T]) -> T:
    """Return an answer as the API shows it: with the fields of its view, and no others.

    Raises `GatewayRefusedError` for the answer of another version.
    """
    try:
        return msgspec.convert(fields, answer)
    except msgspec.ValidationError:
        raise GatewayRefusedError(
            "the proxy gave an answer of another version",
            "run proxy and caller in the same version of egress",
        ) from None


def refusal(status: int, fields: Mapping[str, object]) -> EgressError:
    """Return the error that says what the proxy has refused."""
    kind = _REFUSALS.get(status, GatewayRefusedError)
    return kind(str(fields.get("error") or "the proxy refused it"), str(fields.get("hint", "")))


def _request(
    folder: Path, method: str, target: str, body: Mapping[str, object] | None, timeout: float
) -> JsonAnswer:
    try:
        return ask_proxy(folder, method, target, body, timeout)
    except UnreadableError as error:
        raise GatewayError(error.message, error.hint) from None
