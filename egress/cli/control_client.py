"""Client of a running proxy's control socket."""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from egress import environment
from egress.errors import UnreadableError
from egress.runtime.unix_http import UnixHttpConnection, connect_unix

SOCKET = "control.sock"
_ANSWER_TIMEOUT = 30.0
MAX_SOCKET_PATH_BYTES = 100
"""Limit on the path of a socket; the system allows a few bytes more."""


def _opened(place: Path) -> socket.socket:
    if len(os.fsencode(place)) > MAX_SOCKET_PATH_BYTES:
        # No proxy can listen on such a path.
        raise FileNotFoundError
    return connect_unix(place, _ANSWER_TIMEOUT)


def ask_proxy(
    method: str, path: str, body: Mapping[str, object] | None = None, folder: Path | None = None
) -> tuple[int, dict[str, object]]:
    """Ask the running proxy; return the status code and the answer. Raises `UnreadableError`."""
    place = (folder or environment.runtime_dir(environment.read_environment())) / SOCKET
    connection = UnixHttpConnection("egress", lambda: _opened(place))
    try:
        connection.request(method, path, json.dumps(body or {}))
        answer = connection.getresponse()
        found = json.loads(answer.read())
    except (FileNotFoundError, ConnectionRefusedError):
        raise UnreadableError(
            f"no proxy is running (no answer at {place})",
            "start one with `egress serve`, or name the folder of its socket with --runtime-dir",
        ) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = (getattr(error, "strerror", None) or type(error).__name__).lower()
        raise UnreadableError(f"the proxy at {place} did not answer: {reason}", "check its log") from None
    finally:
        connection.close()
    return answer.status, found if isinstance(found, dict) else {}
