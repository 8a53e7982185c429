"""A control socket that answers one thing, as `egress serve` has one."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path


@contextmanager
def answering(folder: Path, answer: Mapping[str, object]) -> Iterator[None]:
    """Answer every request at the socket in this folder with the same JSON."""
    body = json.dumps(answer).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def address_string(self) -> str:
            return "here"

    with socketserver.ThreadingUnixStreamServer(str(folder / "control.sock"), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield
        server.shutdown()
        thread.join()
