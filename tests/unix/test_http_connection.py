"""One question over a unix socket gets one answer, and what is no answer is an error."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from egress.unix.http_connection import ASK_ERRORS, JsonAnswer, ask_json
from egress.unix.stream_socket import connect, listen


def is_whole(asked: bytearray) -> bool:
    head, mark, body = bytes(asked).partition(b"\r\n\r\n")
    found = re.search(rb"Content-Length: (\d+)", head, re.IGNORECASE)
    return bool(mark) and len(body) >= (int(found[1]) if found else 0)


@contextmanager
def answering(path: Path, data: bytes) -> Iterator[bytearray]:
    """What was asked at a socket where these bytes are the answer."""
    asked = bytearray()
    with listen(path, 1) as listener:

        def answer() -> None:
            with listener.accept()[0] as sock:
                # Whoever answers before the end of the question may be gone before it is sent.
                while not is_whole(asked) and (piece := sock.recv(65536)):
                    asked.extend(piece)
                sock.sendall(data)

        thread = threading.Thread(target=answer)
        thread.start()
        yield asked
        thread.join()


def http(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def ask(path: Path, body: dict[str, object] | None = None, max_bytes: int = 1000) -> JsonAnswer:
    def opened() -> socket.socket:
        return connect(path, 10)

    return ask_json(opened, "POST", "/status", body, max_bytes)


def test_what_is_asked_arrives_and_the_answer_comes_back(tmp_path: Path) -> None:
    with answering(tmp_path / "s", http(b'{"a": 1}', "409 Conflict")) as asked:
        assert ask(tmp_path / "s", {"name": "box"}) == (409, {"a": 1})
    assert asked.startswith(b"POST /status HTTP/1.1\r\nHost: egress\r\n")
    assert asked.endswith(b'\r\n\r\n{"name": "box"}')


def test_what_is_no_object_says_nothing(tmp_path: Path) -> None:
    with answering(tmp_path / "s", http(b"[1]")):
        assert ask(tmp_path / "s") == JsonAnswer(200, {})


@pytest.mark.parametrize(
    "data",
    [b"", b"sesame\r\n\r\n", http(b"{"), http(b'{"long": "' + b"x" * 1000 + b'"}'), http(b"[" * 999)],
    ids=["none", "no-http", "no-json", "too-long", "too-deep"],
)
def test_what_is_no_answer_is_an_error(tmp_path: Path, data: bytes) -> None:
    with answering(tmp_path / "s", data), pytest.raises(ASK_ERRORS):
        ask(tmp_path / "s")


def test_nobody_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ask(tmp_path / "none")
