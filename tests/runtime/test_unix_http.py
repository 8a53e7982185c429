"""HTTP over a unix socket: what is asked arrives, and nothing stays open where nobody answers."""

from __future__ import annotations

import gc
import socket
import threading
import warnings
from pathlib import Path

import pytest

from egress.runtime.unix_http import UnixHttpConnection, connect_unix


def test_what_is_asked_arrives_and_the_answer_comes_back(tmp_path: Path) -> None:
    path, asked = tmp_path / "s", bytearray()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()

        def answer() -> None:
            with listener.accept()[0] as sock:
                asked.extend(sock.recv(4096))
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

        thread = threading.Thread(target=answer)
        thread.start()
        connection = UnixHttpConnection("egress", lambda: connect_unix(path, 10))
        connection.request("GET", "/status")
        assert connection.getresponse().read() == b"hi"
        connection.close()
        thread.join()
    assert asked.startswith(b"GET /status HTTP/1.1\r\nHost: egress\r\n")


def test_where_nobody_answers_nothing_stays_open(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FileNotFoundError):
            connect_unix(tmp_path / "none", 1)
        gc.collect()
