"""The client of a fleet's proxy: asks its control socket for its status, and which texts hold a secret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from egress.control_client import ASK_TIMEOUT, ask_proxy
from egress.errors import UnreadableError
from egress.runtime.errors import GatewayError
from egress.unix.http_connection import JsonAnswer

_STATUS_TIMEOUT: Final = 5.0


def ask(folder: Path, target: str) -> JsonAnswer:
    """Ask the proxy whose sockets are in this folder. Raises `GatewayError` without an answer."""
    return _request(folder, "GET", target, None, _STATUS_TIMEOUT)


def find_secrets(folder: Path, texts: Sequence[str]) -> JsonAnswer:
    """Ask the proxy which of these texts hold a secret that it knows; the answer gives their indexes.

    The proxy first fetches values that it does not have yet, which may take a while. Raises as `ask` does.
    """
    return _request(folder, "POST", "/held", {"texts": list(texts)}, ASK_TIMEOUT)


def _request(
    folder: Path, method: str, target: str, body: Mapping[str, object] | None, timeout: float
) -> JsonAnswer:
    try:
        return ask_proxy(folder, method, target, body, timeout)
    except UnreadableError as error:
        raise GatewayError(error.message, error.hint) from None
