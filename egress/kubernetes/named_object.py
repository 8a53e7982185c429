"""Read one ConfigMap or Secret as the API server sends it: the object itself, or an event of its watch."""

from __future__ import annotations

from typing import Final, override

import msgspec

from egress.errors import ContentError
from egress.kubernetes.watch_events import EventType, version_number

MAX_OBJECT_BYTES: Final = 8 * 1024 * 1024
"""The data has at most 1 MiB, but its JSON may escape every character of it."""


class NamedObjectMeta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    uid: str
    resource_version: str


class NamedObject(msgspec.Struct, frozen=True, rename="camel"):
    """A ConfigMap or a Secret. The values of a Secret are in base64."""

    metadata: NamedObjectMeta
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None

    @property
    def keys(self) -> frozenset[str]:
        return frozenset({**(self.data or {}), **(self.binary_data or {})})

    @override
    def __repr__(self) -> str:
        # The values of a Secret stand in `data`.
        return f"NamedObject({self.metadata.name!r})"


class _RawEvent(msgspec.Struct, frozen=True):
    type: EventType
    object: msgspec.Raw


class _ErrorObject(msgspec.Struct, frozen=True):
    code: int = 0


def read_named_object(data: bytes) -> NamedObject:
    """Read an object. Raises `ContentError`, which quotes nothing of it."""
    if len(data) > MAX_OBJECT_BYTES:
        raise _unreadable("it is too long")
    try:
        found = msgspec.json.decode(data, type=NamedObject)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(type(error).__name__) from None
    if not found.metadata.uid:
        raise _unreadable("it has no UID")
    version_number(found.metadata.resource_version)
    return found


def read_object_event(line: bytes) -> tuple[EventType, NamedObject | None]:
    """Read one line of a watch; a bookmark has no object. Raises `ContentError`, also for an error event."""
    if len(line) > MAX_OBJECT_BYTES:
        raise _unreadable("an event is too long")
    try:
        raw = msgspec.json.decode(line, type=_RawEvent)
        if raw.type is EventType.ERROR:
            code = msgspec.json.decode(raw.object, type=_ErrorObject).code
            raise ContentError(f"the API server ends the watch with {code}", "read the object again")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(type(error).__name__) from None
    if raw.type is EventType.BOOKMARK:
        return raw.type, None
    return raw.type, read_named_object(bytes(raw.object))


def _unreadable(reason: str) -> ContentError:
    return ContentError(f"what the API server sends cannot be read: {reason}", "look at the object")
