"""Where the messages of a gRPC response end. Pure.

Theory of operation. A search for secrets holds back the end of what has come so far where a secret may
begin there, and lets it go with the bytes that follow. In a conversation nothing may follow: the client
waits for the end of a message before it says something, and the upstream for what it says. So the end of
each message has to be known; what is held back goes out with it.

    message     one byte, 0; four bytes of length; that many bytes

No secret can reach over such an end: the byte behind it is 0, and a value holds no control characters.
That is why any other byte there is an error and not the beginning of something unknown. A 1 would say that
the message is compressed: nobody has asked for that, no head has announced it, and it cannot be searched.
Must not look into a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from egress.errors import WireError
from egress.types import Headers

_HEAD_BYTES: Final = 5
_GRPC_TYPE: Final = re.compile(r"application/grpc(?:\+[a-z0-9.+-]++)?+(?:[ \t]*+;.*+)?+", re.IGNORECASE)


class GrpcMessages:
    """The messages of one response, as its bytes come in."""

    __slots__ = ("_head", "_left")

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0
        """Bytes of the message that are still to come."""

    def split(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Give out the bytes in pieces, each with whether a message ends there.

        To be run to its end before the next call. Raises WireError for what is no message.
        """
        start = at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
            else:
                step = min(_HEAD_BYTES - len(self._head), len(data) - at)
                self._read(data[at : at + step])
            at += step
            if not self._left and not self._head:
                yield data[start:at], True
                start = at
        if at > start:
            yield data[start:at], False

    def _read(self, part: bytes) -> None:
        """Take a part of the five bytes before a message."""
        self._head += part
        if self._head[0]:
            raise WireError("A gRPC message begins with something else than 0.")
        if len(self._head) == _HEAD_BYTES:
            self._left = int.from_bytes(self._head[1:], "big")
            self._head.clear()


def is_grpc(headers: Headers) -> bool:
    """Whether a response with these fields consists of gRPC messages."""
    kinds = [value for name, value in headers if name == "content-type"]
    return len(kinds) == 1 and _GRPC_TYPE.fullmatch(kinds[0]) is not None
