"""Decides who may use the API over TCP: whoever shows the token, by the name of this server, and no browser.

The guard stands in front of everything, WebSockets and the OpenAPI document too. A refusal is the usual
problem, ends the connection, and repeats no part of the request.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from egress.api.schema import Problem
from egress.api_server.call import problem_response
from egress.api_server.health import PROBE_PATH
from egress.wrong_tokens import WrongTokenBucket

_BEARER_SCHEME: Final = b"bearer "
_HOST_FORM: Final = re.compile(
    r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[0-9A-Za-z][0-9A-Za-z._-]{0,252})(?::[0-9]{1,5})?", re.ASCII
)

_FOREIGN_HOST: Final = Problem(
    type="api.forbidden",
    message="the request is for another host",
    hint="use the address of --api-listen, or allow the name with --api-name",
)
_BROWSER: Final = Problem(type="api.forbidden", message="the API is not for web pages", hint="use a program")
_AMBIGUOUS: Final = Problem(
    type="request.invalid", message="the request has two lengths", hint="send one of them"
)
_UNAUTHORIZED: Final = Problem(
    type="api.unauthorized",
    message="the token is missing or wrong",
    hint="send `Authorization: Bearer` and the token in the file that the server named at its start",
)
_TOO_OFTEN: Final = Problem(
    type="api.rate", message="too many wrong tokens", hint="send the right one, or wait a second"
)


def token_digest(token: bytes) -> bytes:
    """Return the digest by which tokens are compared: its length says nothing about theirs."""
    return hashlib.sha256(token).digest()


def host_name(host: str) -> str | None:
    """Return the name or address in a `Host` header in its one form, without a port; None if malformed."""
    found = _HOST_FORM.fullmatch(host)
    if found is None:
        return None
    name = found["name"].lower()
    if not name.startswith("["):
        return name
    try:
        return str(ip_address(name[1:-1]))
    except ValueError:
        return None


class ApiAccessGuard:
    """ASGI middleware that checks every request and every handshake of a WebSocket."""

    def __init__(self, app: ASGIApp, digest: bytes, names: Iterable[str], wrong: WrongTokenBucket) -> None:
        """`digest` is that of the token, `names` are those of `host_name` that requests may be for."""
        self._app = app
        self._digest = digest
        self._names = frozenset(names)
        self._wrong = wrong

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        problem = self._refusal(scope["headers"], is_probe=_is_probe(scope))
        if problem is None:
            await self._app(scope, receive, send)
            return
        response = problem_response(problem)
        if problem.type == _UNAUTHORIZED.type:
            response.headers["www-authenticate"] = "Bearer"
        if problem.type == _TOO_OFTEN.type:
            response.headers["retry-after"] = "1"
        if scope["type"] == "http":
            # What follows on this connection may be the body of this request, and is not read as another.
            response.headers["connection"] = "close"
        await response(scope, receive, send)

    def _refusal(self, headers: Iterable[tuple[bytes, bytes]], *, is_probe: bool) -> Problem | None:
        found: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            found.setdefault(name.lower(), []).append(value)
        # Before the token: a page of somebody else cannot even try one.
        hosts = found.get(b"host", [])
        is_foreign = len(hosts) != 1 or host_name(hosts[0].decode("latin-1")) not in self._names
        # A probe names whatever address it was given, and is told nothing that a port scan would not show.
        if is_foreign and not is_probe:
            return _FOREIGN_HOST
        if b"origin" in found:
            return _BROWSER
        if b"content-length" in found and b"transfer-encoding" in found:
            return _AMBIGUOUS
        shown = found.get(b"authorization", [])
        if is_probe or self._is_right(shown):
            return None
        # Only guesses are counted, so nobody who holds the token is ever kept waiting.
        return _UNAUTHORIZED if not shown or self._wrong.take() else _TOO_OFTEN

    def _is_right(self, shown: list[bytes]) -> bool:
        if len(shown) != 1 or shown[0][: len(_BEARER_SCHEME)].lower() != _BEARER_SCHEME:
            return False
        return hmac.compare_digest(token_digest(shown[0][len(_BEARER_SCHEME) :]), self._digest)


def _is_probe(scope: Scope) -> bool:
    """Whether this is the one call that needs no token. The router compares the same path."""
    return (scope["type"], scope.get("method"), scope.get("path"), scope.get("query_string")) == (
        "http",
        "GET",
        PROBE_PATH,
        b"",
    )
