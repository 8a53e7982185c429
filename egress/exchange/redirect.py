"""Where a response may send its client on.

A redirect gives nothing away by itself: the client follows it with what the sandbox holds, and the
new request is decided on its own. Three things are held here all the same: what a rule says about
redirects, that a client reads `same-host` as we do, and URLs that are credentials themselves.

Held: `Location` of a 3xx and `Refresh`, which browsers follow on any status. For a credential in its
URL `Location` is looked at on every status: a 201 can hand one out too. Not held, because no client
follows them on its own: `Content-Location`, `Link`, and `Location` on a 2xx as far as its host goes.
A credential in the path of a URL, or under a name that says nothing, is not recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from egress.exchange.messages import Destination
from egress.exchange.request import names_destination
from egress.types import Headers, Redirects

REDIRECT_FIELDS = frozenset({"location", "refresh"})
"""The fields that can lead somewhere else: where neither is, there is nothing to ask."""
_MAX_DECODING_LAYERS = 3
_ABSOLUTE_URL = re.compile(r"(?:(https?):)?//([^/?#]*)", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_REFRESH = re.compile(r"[\s0-9.]*(?:[;,]\s*)?(?:url\s*=\s*)?(.*)", re.IGNORECASE | re.DOTALL)
_CREDENTIAL_PATTERN = re.compile(
    r"[?&;#](?:[\w.-]*(?:signature|credential|token|jwt|hmac|secret|password|ticket)|(?:[\w.-]*[-_.])?sig"
    r"|code|api[-_]?key|key-pair-id|hdnea|hdnts|hdntl)=",
    re.IGNORECASE,
)
_USER = re.compile(r"//[^/?#]*@")


def may_redirect(
    status: int, headers: Headers, destination: Destination, allowed: Redirects, *, injected: bool
) -> bool:
    """Whether every redirect in these fields is one that the rules let through."""
    for url, is_followed in _urls(status, headers):
        if is_followed and allowed is Redirects.DENY:
            return False
        if is_followed and allowed is Redirects.SAME_HOST and not stays_at_destination(url, destination):
            return False
        if injected and allowed is not Redirects.SIGNED and carries_credential(url):
            return False
    return True


def _urls(status: int, headers: Headers) -> Iterator[tuple[str, bool]]:
    for name, value in headers:
        if name == "location":
            # Some clients follow every 3xx that has a Location, known or not.
            yield value, 300 <= status < 400 and status != 304
        elif name == "refresh" and (match := _REFRESH.fullmatch(value)) is not None and match[1]:
            yield match[1].strip("'\" \t"), True


def stays_at_destination(url: str, destination: Destination) -> bool:
    """Whether every client that follows this URL stays at the destination."""
    plain = _as_read(url)
    # To a browser a backslash is a slash, to a library it is part of the host: no one reading.
    if "\\" in plain:
        return False
    absolute = _ABSOLUTE_URL.match(plain)
    if absolute is None:
        return _SCHEME.match(plain) is None
    scheme = (absolute[1] or destination.scheme).lower()
    return scheme == destination.scheme and names_destination(destination, absolute[2])


def carries_credential(url: str) -> bool:
    """Whether the URL has a signature, a token or the like in its query, its fragment or as its user."""
    plain = _as_read(url).replace("\\", "/")
    if _USER.search(plain):
        return True
    for _ in range(_MAX_DECODING_LAYERS):
        if _CREDENTIAL_PATTERN.search(plain):
            return True
        peeled = unquote(plain, "latin-1")
        if peeled == plain:
            return False
        plain = peeled
    # No honest URL is escaped this often, and what cannot be read must not pass as read.
    return unquote(plain, "latin-1") != plain


def _as_read(url: str) -> str:
    return re.sub(r"[\t\r\n]", "", url).strip(" ")
