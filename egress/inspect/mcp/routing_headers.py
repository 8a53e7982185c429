"""The headers of MCP: the revision, the session, and those that repeat a part of the body.

Servers and what stands before them may route by a header and act by the body, or the other way round. So a
header that repeats something is there once, and says the same.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from egress.inspect.mcp.message import ClientMessage, MessageError
from egress.inspect.mcp.requested import mirrored_name
from egress.inspect.strict_json import JsonFloat, JsonValue
from egress.request_name_folding import fold_header
from egress.types import Head

REVISIONS: Final = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"})
"""The revisions that this gate knows: in a later one the same bytes may mean something else."""
MAX_SESSION_CHARS: Final = 2048
VERSION_META: Final = "io.modelcontextprotocol/protocolVersion"

_METHOD: Final = "mcp-method"
_NAME: Final = "mcp-name"
_VERSION: Final = "mcp-protocol-version"
_SESSION: Final = "mcp-session-id"
_LAST_EVENT: Final = "last-event-id"
_PARAMETER: Final = "mcp-param-"
_SINGLE: Final = frozenset({_METHOD, _NAME, _VERSION, _SESSION, _LAST_EVENT})
_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=")
_SESSION_ID: Final = re.compile(rf"[\x21-\x7e]{{1,{MAX_SESSION_CHARS}}}")


class RoutingError(ValueError):
    """A head whose headers of MCP stand twice or are malformed."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class RoutingHeaders:
    """The headers of MCP in a request; None for each that is not there."""

    method: str | None = None
    name: str | None = None
    version: str | None = None
    session: str | None = None
    last_event: str | None = None
    parameters: tuple[str, ...] = ()
    """The values of `Mcp-Param-*`."""

    def check_body(self, message: ClientMessage) -> None:
        """Check that the body says the same. Raises `MessageError`."""
        version = stated_revision(message)
        if version is not None and not (isinstance(version, str) and version in REVISIONS):
            raise MessageError("mcp.version", "the revision is not known here", message.message_id)
        mirrored = mirrored_name(message)
        differs = (
            (self.method is not None and self.method != (message.method or None))
            or (self.name is not None and (mirrored is None or _decoded(self.name) != mirrored))
            # After a handshake the header alone names the revision.
            or (version is not None and self.version is not None and self.version != version)
        )
        if differs or not self._fits_arguments(message):
            raise MessageError(
                "mcp.header_mismatch", "a header says something else than the body", message.message_id
            )

    def _fits_arguments(self, message: ClientMessage) -> bool:
        if not self.parameters:
            return True
        if message.method != "tools/call":
            return False
        # The tool's schema says which argument a header repeats. It is not known here.
        known = set(_scalar_texts(message.params.get("arguments")))
        return all(_decoded(value) in known for value in self.parameters)


def stated_revision(message: ClientMessage) -> JsonValue:
    """Return the revision that a message states for itself; None for one without."""
    meta = message.params.get("_meta")
    return meta.get(VERSION_META) if isinstance(meta, dict) else None


def read_routing_headers(head: Head) -> RoutingHeaders:
    """Read the headers of MCP, also under names that some server takes for theirs. Raises `RoutingError`."""
    found: dict[str, str] = {}
    for name, value in head.headers:
        folded = fold_header(name)
        if folded in _SINGLE or folded.startswith(_PARAMETER):
            if folded in found:
                raise RoutingError("mcp.header_mismatch", "a header of MCP is there twice")
            found[folded] = value.strip(" \t")
    version, session = found.get(_VERSION), found.get(_SESSION)
    if version is not None and version not in REVISIONS:
        raise RoutingError("mcp.version", "the revision is not known here")
    if session is not None and not is_session_id(session):
        raise RoutingError("mcp.session", "no session has such an id")
    parameters = tuple(value for name, value in found.items() if name.startswith(_PARAMETER))
    return RoutingHeaders(
        found.get(_METHOD), found.get(_NAME), version, session, found.get(_LAST_EVENT), parameters
    )


def is_session_id(text: str) -> bool:
    """Tell whether a server can have given this id: visible ASCII of bounded length."""
    return _SESSION_ID.fullmatch(text) is not None


def _decoded(value: str) -> str | None:
    """Return the text of a header, which may stand in base64; None for one that readers take differently."""
    match = _ENCODED.fullmatch(value)
    if match is None:
        return value if value.isascii() else None
    try:
        data = base64.b64decode(match[1], validate=True)
        text = data.decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    # Some decoders take other spellings of the same bytes.
    return text if base64.b64encode(data).decode("ascii") == match[1] else None


def _scalar_texts(value: JsonValue) -> Iterator[str]:
    """Yield the scalars in the arguments of a call as headers write them."""
    waiting: list[JsonValue] = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case bool() as flag:
                yield "true" if flag else "false"
            case int() as number:
                yield str(number)
            case JsonFloat(text):
                yield text
            case Mapping() as members:
                waiting += members.values()
            case list() as elements:
                waiting += elements
            case _:
                pass
