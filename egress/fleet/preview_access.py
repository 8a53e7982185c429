"""Decides who may use a preview: by the head of a request, before anything is dialled.

Theory of operation. Each exposed port has its own name, so a browser treats it as a separate origin. A client
proves with the token that it may use the preview: in the query, in a header of ours, or in a cookie. A
browser that opens the address is sent to the same place without the token, and from then on has it in a
cookie that no script can read and no other site can send. Token and cookie stop here: the sandbox sees
neither, and a request that holds the token anywhere else is refused.

- The Host has to be the full name of an exposed port. Foreign names that resolve to this machine do not
  match, so DNS rebinding reaches no port.
- A sandbox's name may hold dots; its label never does. Otherwise one sandbox could be a subdomain of another
  and set cookies there.
- Previews of one domain are one site to a browser, so they could set cookies for each other. Cookies of a
  sandbox lose their domain on the way out, and with TLS ours has a name that binds it to its host.
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

from egress.fleet.preview_address import DEFAULT_PORTS
from egress.fleet.protocol import TOKEN_PARAMETER
from egress.http1 import RequestHead, strip_hop_by_hop
from egress.types import Headers

COOKIE_NAME: Final = "egress-preview"
SECURE_COOKIE_NAME: Final = f"__Host-{COOKIE_NAME}"
"""Browsers take a cookie of this name from this very host alone, over TLS."""
TOKEN_HEADER: Final = "egress-preview-token"
RANDOM_LENGTH: Final = 10
"""Random characters of a label: 50 bits, of an alphabet of 32."""
LABEL_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
_MAX_NAME_LENGTH: Final = 50
_COOKIE_NAMES: Final = frozenset({COOKIE_NAME, SECURE_COOKIE_NAME})
_OWN_SITES: Final = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site for the same origin, and for an address that a person typed."""
_SCHEME_HEADER: Final = "x-forwarded-proto"


@dataclass(frozen=True, slots=True)
class ShownPort:
    """An exposed port of a sandbox."""

    sandbox: str
    port: int
    host: str
    """The Host header that browsers send."""
    token: str = field(repr=False)
    scheme: str = "http"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}"

    @property
    def cookie_name(self) -> str:
        return COOKIE_NAME if self.scheme == "http" else SECURE_COOKIE_NAME


@dataclass(frozen=True, slots=True)
class PreviewForward:
    """The request may go on to this port, with this target and these headers."""

    to: ShownPort
    target: str
    headers: Headers


@dataclass(frozen=True, slots=True)
class PreviewRedirect:
    """The browser has to come again, at this address and with this cookie."""

    location: str
    cookie: str = field(repr=False)
    is_linked: bool = False
    """Whether a page of another origin led here: a redirect is still its request, which gets no cookie."""


@dataclass(frozen=True, slots=True)
class PreviewRefusal:
    """The request is refused."""

    status: int
    text: str
    guessed: ShownPort | None = None
    """The port for which the request brought a wrong token."""


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
    to = _find(head.host.lower(), shown)
    if to is None:
        return PreviewRefusal(421, "No preview has this name.")
    if head.form != "origin":
        return PreviewRefusal(400, "Request a path, not an absolute URL.")
    if any(name == "service-worker" for name, _ in head.headers):
        # A worker would answer for this origin, and outlive the preview in the browser.
        return PreviewRefusal(403, "Previews cannot install a service worker.")
    target, has_brought = _without_token(head.target, to.token)
    cookies, fields = _cookies(head.headers), [value for name, value in head.headers if name == TOKEN_HEADER]
    # A field of ours that is wrong counts, whatever else is right.
    is_right = has_brought or any(_is_equal(to.token, value) for value in fields + cookies)
    if not is_right or not all(_is_equal(to.token, value) for value in fields):
        guessed = to if fields or cookies or _tokens(head.target) else None
        return PreviewRefusal(403, "Use the full address of this preview, with its token.", guessed)
    # The address is meant to be opened more than once, and from anywhere: this comes before the rest.
    if has_brought and _is_navigation(head):
        return _redirect(to, target, is_linked=_is_cross_origin(head.headers, to))
    if _is_cross_origin(head.headers, to):
        return PreviewRefusal(403, "Cross-site request refused. Open the address in its own tab.")
    headers = _forwarded(strip_hop_by_hop(head.headers), to)
    if any(to.token in text for text in (target, *head.upgrade, *(value for _, value in headers))):
        return PreviewRefusal(400, f"Send the token in `{TOKEN_HEADER}` or `?{TOKEN_PARAMETER}=` alone.")
    return PreviewForward(to, target, headers)


def without_cookie(headers: Headers) -> Headers:
    """Remove our cookies, and leave the sandbox's own cookies unchanged."""
    found = []
    for name, value in headers:
        if name == "cookie":
            left = "; ".join(part for part in _parts(value) if _name(part) not in _COOKIE_NAMES)
            if left:
                found.append((name, left))
        else:
            found.append((name, value))
    return tuple(found)


def with_own_cookies(headers: Headers) -> Headers:
    """Bind the cookies of a response to the host of the preview, and remove those with a name of ours."""
    found = []
    for name, value in headers:
        if name != "set-cookie":
            found.append((name, value))
            continue
        pair, *attributes = value.split(";")
        if _name(pair) not in _COOKIE_NAMES:
            kept = [each for each in attributes if _name(each).lower() != "domain"]
            found.append((name, ";".join((pair, *kept))))
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


def _tokens(target: str) -> list[str]:
    """The parts of the query that could be meant as our token."""
    return [part for part in target.partition("?")[2].split("&") if part.startswith(f"{TOKEN_PARAMETER}=")]


def _is_navigation(head: RequestHead) -> bool:
    """True if a browser opens a page. Browsers that do not say so ask for HTML."""
    if head.method not in ("GET", "HEAD"):
        return False
    modes = [value for name, value in head.headers if name == "sec-fetch-mode"]
    wanted = [value for name, value in head.headers if name == "accept"]
    return modes == ["navigate"] if modes else any("text/html" in value for value in wanted)


def _redirect(to: ShownPort, target: str, *, is_linked: bool) -> PreviewRedirect:
    secure = "" if to.scheme == "http" else "; Secure"
    cookie = f"{to.cookie_name}={to.token}; Path=/{secure}; HttpOnly; SameSite=Strict"
    return PreviewRedirect(f"{to.origin}{target}", cookie, is_linked)


def _forwarded(headers: Headers, to: ShownPort) -> Headers:
    """The headers for the sandbox: without any proof of ours, and with the scheme that the client used."""
    found = [
        (name, value)
        for name, value in without_cookie(headers)
        # A page whose address held the token may name it as the one it comes from.
        if name not in (TOKEN_HEADER, _SCHEME_HEADER) and not (name == "referer" and to.token in value)
    ]
    return (*found, (_SCHEME_HEADER, to.scheme))


def _is_cross_origin(headers: Headers, to: ShownPort) -> bool:
    """True if a browser says that a page of another origin sent this. Other clients send no such headers."""
    sites = {value for name, value in headers if name == "sec-fetch-site"}
    origins = {value for name, value in headers if name == "origin"} - {to.origin}
    if sites == {"same-origin"}:
        # An opaque origin ("null") within the same site is a sandboxed frame of this very page.
        origins.discard("null")
    return bool(origins) or not sites <= _OWN_SITES


def _cookies(headers: Headers) -> list[str]:
    """The values of our cookies."""
    parts = [part for name, value in headers if name == "cookie" for part in _parts(value)]
    return [part.partition("=")[2] for part in parts if _name(part) in _COOKIE_NAMES]


def _name(part: str) -> str:
    return part.partition("=")[0].strip(" \t")


def _parts(value: str) -> list[str]:
    return [part for each in value.split(";") if (part := each.strip(" \t"))]


def _find(host: str, shown: Mapping[str, ShownPort]) -> ShownPort | None:
    """The port of this host. A client may name the port of the scheme, which goes without saying."""
    found = shown.get(host)
    if found is None:
        bare, _, port = host.rpartition(":")
        found = shown.get(bare)
        if found is not None and port != str(DEFAULT_PORTS[found.scheme]):
            return None
    return found


def _is_equal(token: str, value: str) -> bool:
    return hmac.compare_digest(token.encode(), value.encode("utf-8", "surrogateescape"))
