"""A program for a sandbox: a page that talks to itself over a WebSocket, and says what it was asked."""

import base64
import hashlib
import http.server
import json
import sys

PAGE = """<!doctype html><title>A preview</title>
<style>body { font: 20px sans-serif; margin: 60px } dt { color: #666 }</style>
<h1>A page of a sandbox</h1>
<dl><dt>over the WebSocket</dt><dd id=said>nothing yet</dd><dt>cookies</dt><dd id=cookies></dd></dl>
<script>
const socket = new WebSocket(location.origin.replace('http', 'ws') + '/socket');
socket.onopen = () => socket.send('hello');
socket.onmessage = event => { document.getElementById('said').textContent = event.data; };
document.getElementById('cookies').textContent = document.cookie;
</script>
"""
_ACCEPT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class PreviewSite(http.server.BaseHTTPRequestHandler):
    """The page at `/`, its requests as JSON at `/asked`, and an echo at `/socket`."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.headers.get("Upgrade") == "websocket":
            self._echo()
        elif self.path.startswith("/asked"):
            self._answer(json.dumps({"path": self.path, "headers": self.headers.items()}), "application/json")
        else:
            self._answer(PAGE, "text/html; charset=utf-8")

    def _answer(self, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Set-Cookie", "own=1; Domain=previews.example.com")
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()
        self.wfile.write(body)

    def _echo(self) -> None:
        key = self.headers["Sec-WebSocket-Key"] + _ACCEPT
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header(
            "Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        )
        self.end_headers()
        # Short messages alone: two bytes of a head, four of a mask.
        while (head := self.rfile.read(2)) and head[0] & 0x0F != 8:
            mask, data = self.rfile.read(4), self.rfile.read(head[1] & 0x7F)
            text = bytes(byte ^ mask[place % 4] for place, byte in enumerate(data))
            self.wfile.write(bytes((0x81, len(text))) + text)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Quiet."""


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), PreviewSite).serve_forever()
