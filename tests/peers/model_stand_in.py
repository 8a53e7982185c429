"""A stand-in for a model behind the Responses API: it calls one tool once, and answers with what it got."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, override


class ModelStandIn:
    """The model, in a thread from `with` to its end."""

    def __init__(self, command: str) -> None:
        self._command = command
        self.outputs: list[str] = []
        """What the tool has returned."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The next response: the call of the tool, or its output as the last word."""
        returned = [each["output"] for each in asked["input"] if each.get("type") == "function_call_output"]
        self.outputs += returned
        if returned:
            text = {"type": "output_text", "text": returned[-1].splitlines()[-1], "annotations": []}
            output = {"id": "m1", "type": "message", "role": "assistant", "content": [text]}
        else:
            words = json.dumps({"cmd": self._command})
            output = {"id": "f1", "type": "function_call", "name": "exec_command", "arguments": words}
            output |= {"call_id": "c1"}
        return {
            "id": "r1",
            "object": "response",
            "created_at": 0,
            "model": asked["model"],
            "status": "completed",
            "output": [{**output, "status": "completed"}],
            "tools": [],
            "tool_choice": "auto",
            "parallel_tool_calls": True,
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                body = json.dumps(stand_in.answer(asked)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            @override
            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler
