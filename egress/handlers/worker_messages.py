"""What a proxy and a worker of handlers say to each other: frames of four bytes of length and msgpack."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

LENGTH_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 12 * 1024 * 1024
"""Bytes of a frame: a body of the largest size, and the rest."""
MAX_DETAIL_CHARS: Final = 200


class Source(msgspec.Struct, array_like=True):
    """The file of handlers, as the proxy has read it: every worker runs the same code."""

    path: str
    text: bytes


class HandlerEntry(msgspec.Struct, array_like=True):
    """A handler of the file."""

    name: str
    body: int
    deadline: float


class Manifest(msgspec.Struct, array_like=True):
    """What a worker has found in the file; an `error` if it cannot be used."""

    handlers: list[HandlerEntry] = []
    by_host: dict[str, str] = {}
    catch_all: str = ""
    error: str = ""
    hint: str = ""


class CallMessage(msgspec.Struct, array_like=True):
    """One call: the fields of a request and of its context."""

    ticket: bytes
    handler: str
    method: str
    scheme: str
    host: str
    port: int
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | None
    is_websocket: bool
    sandbox: str
    profile: str | None
    params: str
    """JSON."""
    rule: str
    secrets: tuple[str, ...]
    facts: dict[str, str | int | bool]
    values: dict[str, str]


class Reply(msgspec.Struct, array_like=True):
    """What came of a call."""

    ticket: bytes
    kind: Literal["allow", "answer", "deny", "raised", "value"]
    detail: str = ""
    """For the log of the operator: the class of an error and its line."""
    status: int = 0
    method: str | None = None
    path: str | None = None
    query: str | None = None
    headers: dict[str, str] = {}
    removed: tuple[str, ...] = ()
    body: bytes | None = None
    reason: str = ""


_ENCODER: Final = msgspec.msgpack.Encoder()


def frame(message: msgspec.Struct) -> bytes:
    """Return a message with its length in front."""
    data = _ENCODER.encode(message)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data
