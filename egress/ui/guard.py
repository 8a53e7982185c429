"""Request checks in front of every page: method, host name, origin, login; and the security headers.

The page is read-only, so only GET and HEAD pass. A foreign `Host` means DNS rebinding: an attacker's name
points at this machine. A foreign `Origin` or `Sec-Fetch-Site` means that another page sends the request
through the reviewer's browser. The guard refuses both before any lookup. Another port of this machine counts
as foreign too, because a sandbox preview may run there. The login is checked last. Every response, also a
refusal, carries the same headers. A refusal repeats no part of the request.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from egress.ui.login import LoginSession

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
METHODS = frozenset({"GET", "HEAD"})
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), clipboard-read=()"),
)
PUBLIC_PREFIXES = ("/static/",)
"""Paths served without login: our own script and style, which contain no log data."""
LOGIN = "/login"
MAX_QUERY_BYTES = 8192
SIGN_IN = "Open the link that `egress ui` printed: it contains the token. Each start prints a new link."


class RequestGuard:
    """ASGI middleware that checks every request."""

    def __init__(self, app: ASGIApp, names: Iterable[str] = (), session: LoginSession | None = None) -> None:
        """`names` are host names besides the loopback names. Without `session` no login is required."""
        self._app = app
        self._names = LOOPBACK | {name.lower() for name in names}
        self._session = session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        # Refusals come before the login, so that a foreign page cannot even try a token.
        answer = _Answer(send)
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await answer.text(*refusal)
        elif scope["path"] == LOGIN and self._session is not None:
            await self._login(self._session, scope, answer)
        elif self._is_in(scope, headers):
            await self._app(scope, receive, answer)
        else:
            await answer.text(401, f"This page needs a login. {SIGN_IN}")

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        if scope["method"] not in METHODS:
            return 405, "This page is read-only: use GET."
        # Exactly one `Host`: of two, this check and a later reader could each take another one.
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _name(hosts[0]) not in self._names:
            return 421, "Unknown host name: use the printed link, or allow the name with --name."
        if _is_foreign(headers, hosts[0]):
            return 403, "Another page sent this request: open the address yourself."
        if len(scope["query_string"]) > MAX_QUERY_BYTES:
            return 414, "The address is too long."
        return None

    def _is_in(self, scope: Scope, headers: Headers) -> bool:
        if self._session is None or scope["path"].startswith(PUBLIC_PREFIXES):
            return True
        return any(self._session.knows(cookies) for cookies in headers.getlist("cookie"))

    @staticmethod
    async def _login(session: LoginSession, scope: Scope, answer: _Answer) -> None:
        found = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=10)
        if not session.admits(found.get("token", [""])[0]):
            await answer.text(401, f"Wrong token. {SIGN_IN}")
            return
        # The redirect removes the token from the address bar.
        extra = ((b"location", b"/"), (b"set-cookie", session.cookie.encode()))
        await answer.text(303, "Logged in.", extra)


def _name(host: str) -> str:
    """Return the name in a `Host` header without its port; empty if malformed."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower() if "@" not in host and "/" not in host else ""
    except ValueError:
        return ""


def _is_foreign(headers: Headers, host: str) -> bool:
    """True if another page sent the request. A plain link from another page is harmless and passes."""
    origins = headers.getlist("origin")
    if any(origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()) for origin in origins):
        return True
    site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "")
    if site in ("none", "same-origin"):
        return False
    return mode != "navigate" or headers.get("sec-fetch-dest", "document") != "document"


class _Answer:
    """Adds the security headers to a response."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", ()))
            # No page may stay in a cache on the disk: only a response with its own rule may.
            if not any(name == b"cache-control" for name, _ in given):
                given.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*given, *HEADERS]}
        await self._send(message)

    async def text(self, status: int, text: str, extra: Iterable[tuple[bytes, bytes]] = ()) -> None:
        body = text.encode() + b"\n"
        told = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            *extra,
        ]
        if status == 405:
            told.append((b"allow", b"GET, HEAD"))
        await self({"type": "http.response.start", "status": status, "headers": told})
        await self({"type": "http.response.body", "body": body})
