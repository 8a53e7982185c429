"""The versions of the Model Context Protocol, and what each wants of a request and of a result.

Two kinds are spoken. A client of the older kind agrees on a version in a handshake, `initialize`, before all
else. A client of the newer kind has no handshake: each request says its version in `_meta`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from egress import __version__
from egress.mcp.jsonrpc import INVALID_PARAMS, RpcError, RpcRequest

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Oldest first."""
ENVELOPE_VERSIONS: Final = ("2026-07-28",)
"""Those without a handshake."""
UNSUPPORTED_VERSION: Final = -32022

_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
_SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
_CACHED_METHODS: Final = frozenset({"tools/list", "server/discover"})
_CACHE_MILLISECONDS: Final = 60 * 60 * 1000
SERVER_INFO: Final[Mapping[str, object]] = {"name": "egress", "title": "Egress", "version": __version__}
CAPABILITIES: Final[Mapping[str, object]] = {"tools": {}}


def agreed_version(asked: object) -> str:
    """Return the version of a handshake: the one asked for, or the newest that has one.

    Raises `RpcError` if none is asked for.
    """
    if not isinstance(asked, str):
        raise RpcError(INVALID_PARAMS, "protocolVersion is missing")
    return asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]


def has_envelope(params: Mapping[str, Any]) -> bool:
    """Return whether a request says its version itself."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and _VERSION_KEY in meta


def envelope_version(params: Mapping[str, Any]) -> str:
    """Return the version that a request says. Raises `RpcError`."""
    meta = params.get("_meta")
    if not isinstance(meta, dict) or _VERSION_KEY not in meta or _CAPABILITIES_KEY not in meta:
        raise RpcError(INVALID_PARAMS, f"params._meta lacks {_VERSION_KEY} or {_CAPABILITIES_KEY}")
    version = meta[_VERSION_KEY]
    if not isinstance(version, str) or not isinstance(meta[_CAPABILITIES_KEY], dict):
        raise RpcError(INVALID_PARAMS, f"{_VERSION_KEY} is no text, or {_CAPABILITIES_KEY} is no object")
    check_envelope_version(version)
    return version


def check_envelope_version(version: str) -> None:
    """Raise `RpcError` for a version without a handshake that is not spoken here."""
    if version not in ENVELOPE_VERSIONS:
        raise RpcError(
            UNSUPPORTED_VERSION,
            "the version of the protocol is not supported",
            data={"supported": ENVELOPE_VERSIONS, "requested": version[:100]},
        )


def progress_token(params: Mapping[str, Any]) -> int | str | None:
    """Return the token under which a client wants to hear of progress. Raises `RpcError`."""
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    if token is None or (isinstance(token, int | str) and not isinstance(token, bool)):
        return token
    raise RpcError(INVALID_PARAMS, "the progress token is neither a number nor a text")


def dressed_result(request: RpcRequest, result: Mapping[str, object]) -> Mapping[str, object]:
    """Return a result as the version of its request wants it."""
    if not has_envelope(request.params):
        return result
    dressed = {**result, "resultType": "complete", "_meta": {_SERVER_KEY: SERVER_INFO}}
    if request.method in _CACHED_METHODS:
        dressed |= {"ttlMs": _CACHE_MILLISECONDS, "cacheScope": "private"}
    return dressed
