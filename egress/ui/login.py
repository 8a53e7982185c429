"""Login: the link carries a token once, and a cookie replaces the token afterwards.

The cookie is derived from the token, so a stolen cookie does not reveal the token. No page shows either of
them, and neither is ever logged. The server keeps no state per visitor, so visitors cannot fill its memory.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator


class LoginSession:
    """A login token and its cookie. Its `repr` never shows the token."""

    def __init__(self, token: str) -> None:
        if len(token) < 16:
            raise ValueError("a login token has at least 16 characters")
        self._token = token.encode()
        self._value = hmac.digest(self._token, b"the cookie of the review page", "sha256").hex()
        # Ports of one machine share cookies: a name per token keeps two pages from logging each other out.
        self.name = f"egress-review-{hashlib.sha256(self._token).hexdigest()[:8]}"

    def __repr__(self) -> str:
        return "Session(...)"

    def admits(self, token: str) -> bool:
        """True for the right token, compared in constant time."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token)

    def knows(self, cookies: str) -> bool:
        """True if a `Cookie` header contains the cookie.

        The whole header is searched, because browsers send the cookies of every port of a host name. The
        server limits its size.
        """
        return any(
            hmac.compare_digest(value.encode("utf-8", "replace"), self._value.encode())
            for name, value in _pairs(cookies)
            if name == self.name
        )

    @property
    def cookie(self) -> str:
        """The value of `Set-Cookie`. The cookie ends with the browser session."""
        return f"{self.name}={self._value}; Path=/; HttpOnly; SameSite=Strict"


def _pairs(cookies: str) -> Iterator[tuple[str, str]]:
    # No regular expression: a stranger chooses this text, and splitting always takes linear time.
    for pair in cookies.split(";"):
        name, _, value = pair.partition("=")
        yield name.strip(), value.strip()
