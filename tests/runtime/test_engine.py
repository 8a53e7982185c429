"""The engine, and what is said where there is none, or where it says no."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.runtime.docker.engine import ContainerGoneError, DockerEngine
from egress.runtime.errors import EngineError, EngineUnavailableError, ImageMissingError, UnsupportedError


def test_it_says_what_it_is(engine: DockerEngine) -> None:
    assert engine.major >= 20
    assert engine.socket.is_socket()


def test_what_is_not_there_is_missing_or_gone(engine: DockerEngine) -> None:
    with pytest.raises(ImageMissingError, match="no-such-image"):
        engine.image_id("no-such-image:ever")
    with pytest.raises(ImageMissingError, match="no-such-image"):
        engine.create_container("egress-test-x", {"Image": "no-such-image:ever"})
    assert engine.container_state("no-such-container") is None
    for act in (engine.start_container, engine.pause_container, engine.resume_container, engine.exec_status):
        with pytest.raises(ContainerGoneError):
            act("no-such-thing")
    engine.remove_container("no-such-container")
    engine.stop_container("no-such-container", 0)
    engine.remove_network("no-such-network")
    engine.remove_volume("no-such-volume")
    engine.remove_image("no-such-image:ever")


def test_what_it_refuses_is_told_with_its_reason(engine: DockerEngine) -> None:
    with pytest.raises(EngineError, match=r"did not make a container: .*[Nn]o command"):
        engine.create_container("egress-test-x", {"Image": _any_image(engine)})


def _any_image(engine: DockerEngine) -> str:
    from egress.runtime.docker import door_container

    return door_container.image(engine)


def test_where_none_is_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailableError, match="no engine answers"):
        DockerEngine(tmp_path / "nothing.sock")
    (tmp_path / "file").touch()
    with pytest.raises(EngineUnavailableError):
        DockerEngine(tmp_path / "file")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return Path(os.path.relpath(tmp_path)) / "engine.sock"


@pytest.fixture
def impostor(place: Path) -> Iterator[list[bytes]]:
    """Answers every request with the first of these."""
    answers: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(place))
        sock.listen()

        def serve() -> None:
            while True:
                try:
                    client, _ = sock.accept()
                except OSError:
                    return
                with client:
                    client.recv(65536)
                    client.sendall(answers[0])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield answers
        sock.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_one_that_hangs_up_is_not_there(place: Path, impostor: list[bytes]) -> None:
    impostor.append(b"")
    with pytest.raises(EngineUnavailableError, match="did not answer"):
        DockerEngine(place)


def test_one_that_is_too_old_is_named(place: Path, impostor: list[bytes]) -> None:
    body = b'{"ApiVersion": "1.40", "Version": "19.03.1"}'
    impostor.append(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
        b"content-length: %d\r\n\r\n" % len(body) + body
    )
    with pytest.raises(UnsupportedError, match=r"version 1\.40"):
        DockerEngine(place)
