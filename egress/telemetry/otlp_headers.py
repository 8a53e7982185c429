"""The headers that a collector asks for, such as its token: read from a private file, and never shown.

Each line is a name, a colon and a value. The file is read again before each message, so a token can be
replaced while the proxy runs. Neither an error nor a text of the object quotes a value.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from egress.errors import ContentError, EgressError, UnreadableError
from egress.private_file import read_mounted, read_private

OTLP_HEADERS_OPTION: Final = "--otlp-headers-file"
MAX_HEADERS_BYTES: Final = 16 * 1024
MAX_COLLECTOR_HEADERS: Final = 16
_LINE = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}):[ \t]*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)")
_OUR_FIELDS: Final = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    }
)
"""Fields that say how a message is sent, which are the sender's own."""


class CollectorHeaders:
    """The headers in a file, as they were when it could last be read."""

    def __init__(self, path: Path, *, is_mounted: bool = False) -> None:
        """Read the file, which a cluster may have mounted. Raises `UnreadableError` or `ContentError`."""
        self._path = path
        self._is_mounted = is_mounted
        self._last = self._read()

    def current(self) -> dict[str, str]:
        """Read them anew; the last ones where the file cannot be used just now."""
        try:
            self._last = self._read()
        except EgressError:
            # A file that is being replaced is missing for a moment. The collector refuses an old token.
            return self._last
        return self._last

    def _read(self) -> dict[str, str]:
        cure = f"name another with {OTLP_HEADERS_OPTION}"
        try:
            if self._is_mounted:
                data = read_mounted(self._path, MAX_HEADERS_BYTES + 1, cure)
            else:
                data = read_private(self._path, MAX_HEADERS_BYTES + 1, cure, is_named=True)
        except FileNotFoundError:
            raise UnreadableError(f"{self._path} cannot be read: there is no such file", cure) from None
        found = parse_headers(data)
        if isinstance(found, str):
            raise ContentError(f"{self._path}{found}", "write a line like `authorization: Bearer ...`")
        return found


def parse_headers(data: bytes) -> dict[str, str] | str:
    """Return the headers in the content of a file, or where and why it cannot be used."""
    if len(data) > MAX_HEADERS_BYTES:
        return f" has more than {MAX_HEADERS_BYTES} bytes"
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        return " is not plain ASCII"
    found: dict[str, str] = {}
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line:
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            return f":{number} is not a name, a colon and a value"
        name = match[1].lower()
        if name in _OUR_FIELDS:
            return f":{number} sets {name}, which is not for a file to say"
        if name in found:
            return f":{number} sets {name} a second time"
        found[name] = match[2]
    if not found:
        return " has no header"
    return found if len(found) <= MAX_COLLECTOR_HEADERS else f" has more than {MAX_COLLECTOR_HEADERS} headers"
