"""The response half: what of an upstream's head reaches the sandbox.

Every byte of a response was chosen by the upstream, or by whoever wrote what it serves. Fields of
the connection and fields in our own name are taken off; cookies and redirects are held to the rules;
then the whole head is searched for the secrets of the host.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from egress.errors import WireError
from egress.exchange.request import names
from egress.exchange.values import Answer, Cut, Destination, Response
from egress.http1.connection import strip_hop_by_hop
from egress.scrub import Needles
from egress.types import Cookies, Effects, Headers, Redirects, Scrub

OWN_PREFIX = "egress-"
"""Fields in our own name: only we may say them to a sandbox."""

_REDIRECTS = frozenset({300, 301, 302, 303, 305, 307, 308})
_PLAIN_CODINGS = frozenset({"", "identity"})
_ABSOLUTE = re.compile(r"(?:(https?):)?//([^/?#\\]*)", re.IGNORECASE)
_SIGNED = re.compile(
    r"[?&;#](?:x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)|signature|sig|se|sv"
    r"|(?:access_|auth_|id_|private_)?token|key-pair-id|policy|jwt|code|api_?key|secret|password)=",
    re.IGNORECASE,
)


def answer_of(
    response: Response,
    destination: Destination,
    effects: Effects,
    needles: Needles,
    found: Counter[str],
    *,
    injected: bool,
) -> Answer | Cut:
    """The head that the sandbox gets, or why it gets none. Counts what was scrubbed in `found`."""
    try:
        headers = strip_hop_by_hop(response.headers)
    except WireError:
        return Cut("upstream.malformed")
    refused = _refusal(response, headers, destination, effects, needles, injected=injected)
    if refused is not None:
        return Cut(refused)
    headers = tuple(field for field in headers if not _is_dropped(field[0], effects))
    reason, headers = scrub_fields(response.reason, headers, effects, needles, found)
    if effects.scrub is Scrub.BLOCK and found:
        return Cut("response.withheld")
    return Answer(response.status, reason, headers)


def scrub_fields(
    reason: str, headers: Headers, effects: Effects, needles: Needles, found: Counter[str]
) -> tuple[str, Headers]:
    """A reason phrase and fields without the secrets of the host: names are searched too."""
    if effects.scrub is Scrub.OFF or not len(needles):
        return reason, headers

    def clean(text: str) -> str:
        masked = needles.mask_text(text)
        found.update(masked.found)
        return masked.text

    return clean(reason), tuple((clean(name), clean(value)) for name, value in headers)


def _is_dropped(name: str, effects: Effects) -> bool:
    return name.startswith(OWN_PREFIX) or (
        effects.cookies is Cookies.DROP and name in ("set-cookie", "set-cookie2")
    )


def _refusal(
    response: Response,
    headers: Headers,
    destination: Destination,
    effects: Effects,
    needles: Needles,
    *,
    injected: bool,
) -> str | None:
    if _exceeds(headers, effects) and response.has_body:
        return "limit.response_body"
    is_coded = False
    for name, value in headers:
        if name == "location" and (response.status in _REDIRECTS or response.status == 201):
            if not _may_redirect(value, destination, effects.redirects, injected=injected):
                return "redirect.refused"
        elif name == "content-encoding" and value.strip(" \t").lower() not in _PLAIN_CODINGS:
            is_coded = True
    # We asked for no coding: what comes coded all the same cannot be searched.
    return "response.withheld" if is_coded and response.has_body and _can_return(effects, needles) else None


def _can_return(effects: Effects, needles: Needles) -> bool:
    return effects.scrub is not Scrub.OFF and len(needles) > 0


def _exceeds(headers: Headers, effects: Effects) -> bool:
    stated = next((value for name, value in headers if name == "content-length"), "")
    most = smallest(limit.response_body for limit in effects.limits)
    return most is not None and stated.isdigit() and int(stated) > most


def smallest(bounds: Iterable[int | None]) -> int | None:
    """The tightest of several bounds; None where none is set."""
    return min((bound for bound in bounds if bound is not None), default=None)


def _may_redirect(location: str, destination: Destination, allowed: Redirects, *, injected: bool) -> bool:
    if allowed is Redirects.DENY:
        return False
    # Browsers and libraries read a backslash as a slash, and drop tabs and line ends.
    plain = re.sub(r"[\t\r\n]", "", location).replace("\\", "/").strip(" ")
    absolute = _ABSOLUTE.match(plain)
    if allowed is Redirects.SAME_HOST and absolute is not None:
        scheme = (absolute[1] or destination.scheme).lower()
        if scheme != destination.scheme or not names(destination, absolute[2]):
            return False
    if (
        allowed is Redirects.SAME_HOST
        and absolute is None
        and re.match(r"[a-z][a-z0-9+.-]*:", plain, re.IGNORECASE)
    ):
        return False
    return allowed is Redirects.SIGNED or not (injected and _SIGNED.search(plain))
