"""Who may look at a port of a sandbox: judged by the head of a request, before anything is dialled.

Theory of operation. Each port that is shown has a name of its own below `localhost`, so a browser takes it
for an origin of its own. Its address carries a token once; what brings it is sent on to the same place
without it, with the token in a cookie that no script can read and no other site can have sent. From then on
the cookie is asked for. Token and cookie stop here: what runs in the sandbox sees neither.

- The Host has to be that of a port that is shown, in full. Names that others let point to this machine are
  none of those, so nobody reaches a port by rebinding one.
- A sandbox's name may hold dots; its label never does. Otherwise one sandbox could be a subdomain of another
  one, and set cookies there.
- A browser keeps what an origin gave it, scripts among it, for longer than a sandbox lives. So each showing
  has an origin that was never there before and that nobody can guess: a part of its label is random. And no
  worker is installed that would speak for the origin by itself.
- A cookie holds for a host at every port of it, and a browser sends it along with what pages of such ports
  ask. So what a page asks has to be asked by one of this very origin, wherever its browser says.
- Tokens are compared in constant time.

It reads nothing and sends nothing.
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
"""How many characters of a label are random: 50 bits, of an alphabet of 32."""
LABEL_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
_MAX_NAME_LENGTH: Final = 50
_OWN_SITES: Final = frozenset({"same-origin", "none"})
"""What a browser says of its own origin, and of a person who typed."""


@dataclass(frozen=True, slots=True)
class ShownPort:
    """A port of a sandbox that is shown."""

    sandbox: str
    port: int
    host: str
    """The Host that browsers send."""
    token: str = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://{self.host}/?{TOKEN_PARAMETER}={self.token}"


@dataclass(frozen=True, slots=True)
class PreviewForward:
    """The request may go on, like this."""

    to: ShownPort
    target: str
    headers: Headers


@dataclass(frozen=True, slots=True)
class PreviewRedirect:
    """The client is to come again, to this address, and to bring the cookie."""

    location: str
    cookie: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PreviewRefusal:
    """The request goes no further."""

    status: int
    text: str


PreviewDecision = PreviewForward | PreviewRedirect | PreviewRefusal


def port_label(sandbox: str, port: int, chance: str) -> str:
    """The label under which a port is shown: `8000-web-k3f7q2mxta`.

    The first part is for people. `chance` tells it from all others: `RANDOM_LENGTH` characters of
    `LABEL_ALPHABET`, drawn
    for this showing alone.
    """
    readable = re.sub(r"[^a-z0-9]+", "-", f"{port}-{sandbox}")[:_MAX_NAME_LENGTH].strip("-")
    return f"{readable}-{chance}"


def decide_preview(head: RequestHead, shown: Mapping[str, ShownPort]) -> PreviewDecision:
    """Decide about a request; `shown` is by Host."""
    to = shown.get(head.host.lower())
    if to is None:
        return PreviewRefusal(421, "No port of a sandbox is shown under this name.")
    if head.form != "origin":
        return PreviewRefusal(400, "Ask for a path, not for a whole address.")
    if any(name == "service-worker" for name, _ in head.headers):
        # It would answer for this origin, and stay in the browser when the port is no longer shown.
        return PreviewRefusal(403, "A preview installs no service worker.")
    bare, has_brought = _without_token(head.target, to.token)
    if has_brought:
        if head.method not in ("GET", "HEAD"):
            return PreviewRefusal(403, "Open the address in a browser first.")
        cookie = f"{COOKIE_NAME}={to.token}; Path=/; HttpOnly; SameSite=Strict"
        return PreviewRedirect(f"http://{to.host}{bare}", cookie)
    if not any(_is_equal(to.token, value) for value in _cookies(head.headers)):
        return PreviewRefusal(403, "Open the whole address that `expose` gave, with its token.")
    if _is_cross_origin(head.headers, to):
        return PreviewRefusal(403, "Another site asked for this. Open the address in a tab of its own.")
    return PreviewForward(to, head.target, without_cookie(strip_hop_by_hop(head.headers)))


def without_cookie(headers: Headers) -> Headers:
    """Take our cookie out, and leave those of others as they came."""
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
    """The target without our token, and whether it was there. A token of somebody else's stays."""
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
    """Whether a browser says that a page of another origin asks. What is no browser says nothing of it."""
    sites = {value for name, value in headers if name == "sec-fetch-site"}
    origins = {value for name, value in headers if name == "origin"} - {f"http://{to.host}"}
    if sites == {"same-origin"}:
        # A page that tells nobody where it comes from does not tell itself.
        origins.discard("null")
    return bool(origins) or not sites <= _OWN_SITES


def _cookies(headers: Headers) -> list[str]:
    """Values of our cookie."""
    parts = [part.partition("=") for name, value in headers if name == "cookie" for part in _parts(value)]
    return [value for name, _, value in parts if name.strip() == COOKIE_NAME]


def _parts(value: str) -> list[str]:
    return [part for each in value.split(";") if (part := each.strip(" \t"))]


def _is_equal(token: str, value: str) -> bool:
    return hmac.compare_digest(token.encode(), value.encode("utf-8", "surrogateescape"))
