"""The stand-in for the program of an image of agent-sandbox: commands and files over HTTP, on port 8888.

It runs in the pod of a trial by its text, with Python alone, and has no protection of its own.
"""

import json
import shlex
import subprocess
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

ROOT = Path("/workspace")


class Runtime(BaseHTTPRequestHandler):
    """The five endpoints that clients use."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/execute":
            words = shlex.split(json.loads(body)["command"])
            done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
            self._tell({"stdout": done.stdout, "stderr": done.stderr, "exit_code": done.returncode})
            return
        whole = b"Content-Type: " + self.headers["Content-Type"].encode() + b"\r\n\r\n" + body
        parts = message_from_bytes(whole).get_payload()
        assert isinstance(parts, list)
        (part,) = parts
        assert isinstance(part, Message)
        file, content = self._file(part.get_filename() or ""), part.get_payload(decode=True)
        assert isinstance(content, bytes)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        self._tell({"message": "uploaded"})

    def do_GET(self) -> None:
        verb, _, name = self.path[1:].partition("/")
        file = self._file(unquote(unquote(name)))
        if verb == "exists":
            self._tell({"path": name, "exists": file.exists()})
        elif verb == "list" and file.is_dir():
            found = [(each, each.stat()) for each in file.iterdir()]
            kinds = {each.name: "directory" if each.is_dir() else "file" for each, _ in found}
            self._tell(
                [
                    {
                        "name": each.name,
                        "size": facts.st_size,
                        "type": kinds[each.name],
                        "mod_time": facts.st_mtime,
                    }
                    for each, facts in found
                ]
            )
        elif verb == "download" and file.is_file():
            self._send(200, file.read_bytes())
        else:
            self._send(404 if name else 200, b"{}")

    def _file(self, name: str) -> Path:
        return ROOT / name.lstrip("/")

    def _tell(self, value: object) -> None:
        self._send(200, json.dumps(value).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("", 8888), Runtime).serve_forever()
