"""The part of an output that a model gets to see: its beginning and its end, within a bound.

The end says how a command went, and the beginning what it was about; a middle of megabytes says neither.
"""

from __future__ import annotations

import threading


class ShortenedOutput:
    """One output of a command. Any thread may add to it."""

    def __init__(self, max_bytes: int) -> None:
        self._half = max_bytes // 2
        self._begin = bytearray()
        self._end = bytearray()
        self._dropped = 0
        self._lock = threading.Lock()

    def add(self, data: bytes) -> None:
        """Take a piece."""
        with self._lock:
            room = self._half - len(self._begin)
            self._begin += data[:room]
            self._end += data[room:]
            surplus = len(self._end) - self._half
            if surplus > 0:
                del self._end[:surplus]
                self._dropped += surplus

    @property
    def is_truncated(self) -> bool:
        return self._dropped > 0

    def text(self) -> str:
        """Return the kept text, with a line in place of the part that was dropped."""
        with self._lock:
            if not self._dropped:
                return (self._begin + self._end).decode("utf-8", "replace")
            begin, end = (part.decode("utf-8", "replace") for part in (self._begin, self._end))
            return f"{begin}\n[{self._dropped} bytes left out]\n{end}"

    def last_line(self, max_chars: int) -> str:
        """Return the newest line that is not empty, as far as it has come."""
        with self._lock:
            lines = bytes((self._end or self._begin)[-4 * max_chars :]).decode("utf-8", "replace").split("\n")
        line = next((each.strip() for each in reversed(lines) if each.strip()), "")
        return "".join(each if each.isprintable() else " " for each in line[-max_chars:])
