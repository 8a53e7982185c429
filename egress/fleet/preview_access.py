"""Decides who may use a preview: by the head of a request, before anything is dialled.

Theory of operation. Each exposed port has its own name below `localhost`, so a browser treats it as a
separate origin. The address carries a token once. A request that brings the token is redirected to the same
place without it, with the token in a cookie that no script can read and no other site can send. From then on
the cookie is required. Token and cookie stop here: the sandbox sees neither.

- The Host has to be the full name of an exposed port. Foreign names that resolve to this machine do not
  match, so DNS rebinding reaches no port.
- A sandbox's name may hold dots; its label never does. Otherwise one sandbox could be a subdomain of another
  and set cookies there.
- A browser keeps what an origin gave it, scripts among it, for longer than a sandbox lives. So each preview
  has a new origin that nobody can guess: a part of its label is random. Service workers, which would answer
  for the origin later, are refused.
- A cookie holds for a host at every port, and a browser sends it with requests that pages of other ports
  make. So a request from a page has to come from this very origin, as far as the browser tells.
- Tokens are compared in constant time.

The module reads nothing and sends nothing.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from egress.http1 import RequestHead, strip_hop_by_hop
from egress.types import Headers

COOKIE_NAME: Final = "egress-preview"
TOKEN_PARAMETER: Final = "token"
RANDOM_LENGTH: Final = 10
"""Random characters of a label: 50 bits, of an alphabet of 32."""
LABEL_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
_MAX_NAME_LENGTH: Final = 50
_OWN_SITES: Final = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site for the same origin, and for an address that a person typed."""


@dataclass(frozen=True, slots=True)
class ShownPort:
    """An exposed port of a sandbox."""

    sandbox: str
    port: int
    host: str
    """The Host header that browsers send."""
    token: str = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://{self.host}/?{TOKEN_PARAMETER}={self.token}"


@dataclass(frozen=True, slots=True)
class PreviewForward:
    """The request may go on to this port, with this target and these headers."""

    to: ShownPort
    target: str
    headers: Headers


@dataclass(frozen=True, slots=True)
class PreviewRedirect:
    """The client has to come again, at this address and with this cookie."""

    location: str
    cookie: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PreviewRefusal:
    """The request is refused."""

    status: int
    text: str


PreviewDecision = PreviewForward | PreviewRedirect | PreviewRefusal


def port_label(sandbox: str, port: int, chance: str) -> str:
    """The label of an exposed port: `8000-web-k3f7q2mxta`.

    The first part is for people. `chance` makes the label unique: `RANDOM_LENGTH` random characters of
    `LABEL_ALPHABET`.
    """
    readable = re.sub(r"[^a-z0-9]+", "-", f"{port}-{sandbox}")[:_MAX_NAME_LENGTH].strip("-")
    return f"{readable}-{chance}"


def decide_preview(head: RequestHead, shown: Mapping[str, ShownPort]) -> PreviewDecision:
    """Decide about a request; `shown` maps hosts to exposed ports."""
    to = shown.get(head.host.lower())
    if to is None:
        return PreviewRefusal(421, "No preview has this name.")
    if head.form != "origin":
        return PreviewRefusal(400, "Request a path, not an absolute URL.")
    if any(name == "service-worker" for name, _ in head.headers):
        # A worker would answer for this origin, and outlive the preview in the browser.
        return PreviewRefusal(403, "Previews cannot install a service worker.")
    # The token comes before the cookie: the address is meant to be opened more than once.
    bare, has_brought = _without_token(head.target, to.token)
    if has_brought:
        if head.method not in ("GET", "HEAD"):
            return PreviewRefusal(403, "Open the preview address in a browser first.")
        cookie = f"{COOKIE_NAME}={to.token}; Path=/; HttpOnly; SameSite=Strict"
        return PreviewRedirect(f"http://{to.host}{bare}", cookie)
    if not any(_is_equal(to.token, value) for value in _cookies(head.headers)):
        return PreviewRefusal(403, "Open the full address from `expose`, with its token.")
    if _is_cross_origin(head.headers, to):
        return PreviewRefusal(403, "Cross-site request refused. Open the address in its own tab.")
    return PreviewForward(to, head.target, without_cookie(strip_hop_by_hop(head.headers)))


def without_cookie(headers: Headers) -> Headers:
    """Remove our cookie, and leave the sandbox's own cookies unchanged."""
    found = []
    for name, value in headers:
        if name == "cookie":
            left = "; ".join(part for part in _parts(value) if part.partition("=")[0].strip() != COOKIE_NAME)
            if left:
                found.append((name, left))
        else:
            found.append((name, value))
    return tuple(found)


def _without_token(target: str, token: str) -> tuple[str, bool]:
    """The target without our token, and whether it held the token. A foreign token stays."""
    path, sign, query = target.partition("?")
    if not sign:
        return target, False
    parts = query.split("&")
    left = [part for part in parts if not _is_token(part, token)]
    if len(left) == len(parts):
        return target, False
    return path + (f"?{'&'.join(left)}" if left else ""), True


def _is_token(part: str, token: str) -> bool:
    name, _, value = part.partition("=")
    return name == TOKEN_PARAMETER and _is_equal(token, value)


def _is_cross_origin(headers: Headers, to: ShownPort) -> bool:
    """True if a browser says that a page of another origin sent this. Other clients send no such headers."""
    sites = {value for name, value in headers if name == "sec-fetch-site"}
    origins = {value for name, value in headers if name == "origin"} - {f"http://{to.host}"}
    if sites == {"same-origin"}:
        # An opaque origin ("null") within the same site is a sandboxed frame of this very page.
        origins.discard("null")
    return bool(origins) or not sites <= _OWN_SITES


def _cookies(headers: Headers) -> list[str]:
    """The values of our cookie."""
    parts = [part.partition("=") for name, value in headers if name == "cookie" for part in _parts(value)]
    return [value for name, _, value in parts if name.strip() == COOKIE_NAME]


def _parts(value: str) -> list[str]:
    return [part for each in value.split(";") if (part := each.strip(" \t"))]


def _is_equal(token: str, value: str) -> bool:
    return hmac.compare_digest(token.encode(), value.encode("utf-8", "surrogateescape"))
