"""Talking to a proxy that runs, over its control socket."""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import override

from egress import settings
from egress.errors import UnreadableError

SOCKET = "control.sock"
_PATIENCE = 30.0
LONGEST_PATH = 100
"""Of a socket: the system allows a few more."""


class _Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("egress", timeout=_PATIENCE)
        self._path = path

    @override
    def connect(self) -> None:
        if len(os.fsencode(self._path)) > LONGEST_PATH:
            # Nothing can listen there.
            raise FileNotFoundError
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_PATIENCE)
        self.sock.connect(str(self._path))


def ask(
    method: str, path: str, body: Mapping[str, object] | None = None, folder: Path | None = None
) -> tuple[int, dict[str, object]]:
    """Ask the running proxy; returns the status and what it says. Raises `UnreadableError`."""
    place = (folder or settings.runtime_dir(settings.environment())) / SOCKET
    connection = _Connection(place)
    try:
        connection.request(method, path, json.dumps(body or {}))
        answer = connection.getresponse()
        found = json.loads(answer.read())
    except (FileNotFoundError, ConnectionRefusedError):
        raise UnreadableError(
            f"no proxy is running here: nobody answers at {place}",
            "start one with `egress serve`, or name the folder of its socket with --runtime-dir",
        ) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = (getattr(error, "strerror", None) or type(error).__name__).lower()
        raise UnreadableError(f"the proxy at {place} did not answer: {reason}", "look into its log") from None
    finally:
        connection.close()
    return answer.status, found if isinstance(found, dict) else {}
