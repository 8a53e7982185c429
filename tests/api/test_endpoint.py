"""Where an API is served."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from egress.api.endpoint import UnixEndpoint
from tests.fleet.memory_fleet import short_folder


def test_a_unix_socket_is_connected_to_and_needs_no_token() -> None:
    with short_folder() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "x"))
        listener.listen()
        endpoint = UnixEndpoint(folder / "x")
        with endpoint.connect() as sock:
            assert sock.gettimeout() is None
        assert endpoint.headers == ()
        assert str(endpoint) == str(folder / "x")


def test_a_path_that_is_too_long_has_a_reason() -> None:
    with pytest.raises(OSError, match="too long"):
        UnixEndpoint(Path("/tmp") / ("x" * 200)).connect()
