"""Client of the proxy that runs with the folders of this user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from egress import control_client, environment
from egress.unix.http_connection import JsonAnswer


def ask_proxy(
    method: str, target: str, body: Mapping[str, object] | None = None, folder: Path | None = None
) -> JsonAnswer:
    """Ask the running proxy; `folder` is that of its sockets. Raises `UnreadableError`."""
    return control_client.ask_proxy(
        folder or environment.runtime_dir(environment.read_environment()), method, target, body
    )
