"""Where the page listens. That it serves there is tried in tests/ui, with a browser."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.ui import listen


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def bind(self: socket.socket, place: object) -> None:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr(socket.socket, "bind", bind)


def test_what_cannot_be_is_told(tmp_path: Path, taken: None) -> None:
    with pytest.raises(UnreadableError, match="address already in use"):
        listen.listen_on_port("127.0.0.1", 80)
    with pytest.raises(UnreadableError, match="address already in use"):
        listen.listen_on_socket(tmp_path / "review.sock")


def test_a_file_that_is_no_socket_stays(tmp_path: Path, taken: None) -> None:
    file = tmp_path / "review.sock"
    file.write_text("mine")
    with pytest.raises(UnreadableError):
        listen.listen_on_socket(file)
    assert file.read_text() == "mine"
