"""A socket is its user's alone from its first moment, and stands in nobody's place."""

from __future__ import annotations

import errno
import gc
import os
import socket
import stat
import warnings
from pathlib import Path

import pytest

from egress.unix.stream_socket import MAX_PATH_BYTES, connect, connect_to_egress, is_path_too_long, listen


def test_what_listens_is_reached(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with listen(path, 1) as listener, connect(path, 5) as sock:
        there, _ = listener.accept()
        with there:
            there.sendall(b"hello")
        assert sock.recv(10) == b"hello"
        assert sock.gettimeout() == 5


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_socket_is_its_users_alone_at_every_moment(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    really = socket.socket.listen

    def watched(self: socket.socket, backlog: int) -> None:
        seen.append(stat.S_IMODE((tmp_path / "s").stat().st_mode))
        really(self, backlog)

    monkeypatch.setattr(socket.socket, "listen", watched)
    before = os.umask(umask)
    try:
        listen(tmp_path / "s", 1).close()
    finally:
        os.umask(before)
    assert seen == [0o600]


def test_another_mode_is_given_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        listen(tmp_path / "s", 1, 0o622).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o622


def test_a_socket_that_was_left_behind_is_replaced_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    listen(path, 1).close()
    with pytest.raises(OSError, match="in use"):
        listen(path, 1)
    with listen(path, 1, is_ours=True), connect(path, 1):
        pass


def test_what_is_no_socket_stays(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(OSError, match="in use"):
        listen(path, 1, is_ours=True)
    assert path.read_text(encoding="utf-8") == "mine"


def test_a_path_that_is_too_long_is_refused_with_its_reason() -> None:
    path = Path("/" + "x" * MAX_PATH_BYTES)
    assert is_path_too_long(path)
    assert not is_path_too_long(Path("/" + "x" * (MAX_PATH_BYTES - 1)))
    for open_one in (listen, connect_to_egress):
        with pytest.raises(OSError, match="the path is too long") as caught:
            open_one(path, 1)
        assert caught.value.errno == errno.ENAMETOOLONG


def test_where_nobody_answers_nothing_stays_open(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FileNotFoundError):
            connect(tmp_path / "none", 1)
        with pytest.raises(FileNotFoundError):
            listen(tmp_path / "none" / "s", 1)
        gc.collect()
