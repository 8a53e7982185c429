"""Who may look: a token that the link carries once, and the cookie that stands for it afterwards.

The cookie is not the token, and neither can be found from the other's place: a page never shows one, and
nothing here is ever logged. Nothing is kept for a visitor, so there is nothing to fill up.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator


class LoginSession:
    """A login. Its text never shows the token."""

    def __init__(self, token: str) -> None:
        if len(token) < 16:
            raise ValueError("a login token has at least 16 characters")
        self._token = token.encode()
        self._value = hmac.digest(self._token, b"the cookie of the review page", "sha256").hex()
        # Cookies of one name are shared by all ports of a machine: two pages must not log each other out.
        self.name = f"egress-review-{hashlib.sha256(self._token).hexdigest()[:8]}"

    def __repr__(self) -> str:
        return "Session(...)"

    def admits(self, token: str) -> bool:
        """Whether this is the token; takes as long for any text of its length."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token)

    def knows(self, cookies: str) -> bool:
        """Whether a `Cookie` header holds the cookie.

        All of it is looked at, for browsers send what every port of a name has set; the server bounds it.
        """
        return any(
            hmac.compare_digest(value.encode("utf-8", "replace"), self._value.encode())
            for name, value in _pairs(cookies)
            if name == self.name
        )

    @property
    def cookie(self) -> str:
        """What `Set-Cookie` says. It ends with the browser."""
        return f"{self.name}={self._value}; Path=/; HttpOnly; SameSite=Strict"


def _pairs(cookies: str) -> Iterator[tuple[str, str]]:
    # No regular expression: a stranger chooses this text, and splitting takes no longer for any.
    for pair in cookies.split(";"):
        name, _, value = pair.partition("=")
        yield name.strip(), value.strip()
