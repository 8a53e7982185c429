"""Files by their path, for whoever asks: what every stand-in for a package registry is made of."""

from __future__ import annotations

from tests.proxy.clients.standins.static_files import Files
from tests.tools.vendor_server import VendorCall


class Shelf:
    """Reads only, and lets in whoever brings no credential: nothing is injected for a registry."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def __call__(self, call: VendorCall) -> None:
        content = self._files.get(call.path)
        if call.header("authorization"):
            call.reply(b"this is for everybody\n", "text/plain", 400)
        elif content is None or call.method not in ("GET", "HEAD"):
            call.reply(b"nothing here\n", "text/plain", 404)
        else:
            call.reply(content, _kind(call.path))


def _kind(path: str) -> str:
    """A page of an index is HTML, and npm reads JSON whatever it is called."""
    return "text/html" if path.endswith("/") else "application/octet-stream"
