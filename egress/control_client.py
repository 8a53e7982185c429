"""The client of the control socket: one question to a running proxy, one answer.

Commands, runtimes and fleets ask with it. Which questions there are is said by the proxy.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from egress.errors import UnreadableError, reason_of
from egress.unix.http_connection import ASK_ERRORS, JsonAnswer, ask_json
from egress.unix.stream_socket import connect_to_egress

CONTROL_SOCKET: Final = "control.sock"
HANDOVER_SOCKET: Final = Path("doors", "handover.sock")
"""Alone in its folder, so that a door container can be given that folder and nothing else."""
ASK_TIMEOUT: Final = 30.0
_MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024


class NoProxyError(UnreadableError):
    """No proxy runs with this folder."""


def ask_proxy(
    folder: Path,
    method: str,
    target: str,
    body: Mapping[str, object] | None = None,
    timeout: float = ASK_TIMEOUT,
) -> JsonAnswer:
    """Ask the proxy whose sockets are in `folder`. Raises `NoProxyError`, or `UnreadableError`."""
    path = folder / CONTROL_SOCKET
    try:
        return ask_json(lambda: connect_to_egress(path, timeout), method, target, body, _MAX_ANSWER_BYTES)
    except ASK_ERRORS as error:
        raise no_answer(path, error) from None


def no_answer(path: Path, error: Exception) -> UnreadableError:
    """Say why no answer comes from one of the sockets of a proxy."""
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return NoProxyError(
            f"no proxy is running (no answer at {path})",
            "start one with `egress serve` or `egress up`, or name the folder of its socket with "
            "--runtime-dir; each `egress run` has a proxy of its own, and `egress ps` lists their sandboxes",
        )
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return NoProxyError(
            f"no proxy is running ({path} is too long for a socket)",
            "start one with `egress serve`, and name a shorter folder with --runtime-dir",
        )
    return UnreadableError(f"the proxy did not answer at {path}: {reason_of(error)}", "check its log")
