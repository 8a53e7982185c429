"""The client of a fleet's proxy: asks its control socket for its status, and which texts hold a secret."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from egress.runtime.errors import GatewayError
from egress.runtime.proxy_client import CONTROL_SOCKET
from egress.runtime.unix_http import UnixHttpConnection, connect_unix

_ANSWER_TIMEOUT: Final = 5.0
_SEARCH_TIMEOUT: Final = 30.0
_MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ControlAnswer:
    """An answer of the control socket."""

    status: int
    said: Mapping[str, object]
    """The fields of the answer; empty if it was no JSON object."""


def ask(folder: Path, path: str) -> ControlAnswer:
    """Ask the proxy whose sockets are in this folder. Raises `GatewayError` without an answer."""
    return _request(folder, "GET", path, None, _ANSWER_TIMEOUT)


def find_secrets(folder: Path, texts: Sequence[str]) -> ControlAnswer:
    """Ask the proxy which of these texts hold a secret that it knows; the answer gives their indexes.

    The proxy first fetches values that it does not have yet, which may take a while. Raises as `ask` does.
    """
    return _request(folder, "POST", "/held", json.dumps({"texts": list(texts)}), _SEARCH_TIMEOUT)


def _request(folder: Path, method: str, path: str, body: str | None, patience: float) -> ControlAnswer:
    connection = UnixHttpConnection("egress", lambda: connect_unix(folder / CONTROL_SOCKET, patience))
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return ControlAnswer(answer.status, _parse_object(answer.read(_MAX_ANSWER_BYTES)))
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = (getattr(error, "strerror", None) or type(error).__name__).lower()
        raise GatewayError(f"the proxy of these sandboxes did not answer: {reason}", "see its log") from None
    finally:
        connection.close()


def _parse_object(data: bytes) -> Mapping[str, object]:
    found = json.loads(data)
    return found if isinstance(found, dict) else {}
