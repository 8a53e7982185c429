"""What is left of a call to an engine that is gone: nothing."""

from __future__ import annotations

import gc
import http.server
import socket
import socketserver
import threading
import warnings
from pathlib import Path

import pytest
import requests
from docker.transport import UnixHTTPAdapter

from egress.runtime.docker.sdk_transport import SdkTransport

URL = "http+docker://localhost/x"


def called(adapter: UnixHTTPAdapter) -> list[str]:
    """What is warned of when nobody answered and all was closed."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with requests.Session() as session:
            session.mount("http+docker://", adapter)
            with pytest.raises(requests.ConnectionError):
                session.get(URL)
        gc.collect()
    return [str(each.message) for each in told]


def test_a_socket_that_finds_nobody_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(path))
    assert called(SdkTransport(str(path))) == []
    assert any("unclosed <socket" in each for each in called(UnixHTTPAdapter(str(path))))


def test_one_that_finds_somebody_is_used_again(tmp_path: Path) -> None:
    came = []

    class Answers(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            came.append(1)
            super().setup()

        def address_string(self) -> str:
            return "somebody"

        def log_message(self, *_: object) -> None: ...

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

    with socketserver.ThreadingUnixStreamServer(str(tmp_path / "s"), Answers) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with requests.Session() as session:
            session.mount("http+docker://", SdkTransport(str(tmp_path / "s")))
            assert [session.get(URL).text for _ in range(3)] == ["ok"] * 3
        server.shutdown()
        thread.join()
    assert len(came) == 1
