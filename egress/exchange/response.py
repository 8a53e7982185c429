"""The response half: what of an upstream's head and trailers reaches the sandbox.

Every byte of a response was chosen by the upstream, or by whoever wrote what it serves. Fields of
the connection and fields in our own name are taken off; cookies and redirects are held to the rules;
then the whole head is searched for the secrets of the host, names and reason too.

Stated limits: those of `egress.scrub`, of `redirect` and of `coding`. A secret that comes back in
pieces, such as two ranges of one resource, is not seen: Range stays, since downloads resume with it.
"""

from __future__ import annotations

import re
from collections import Counter

from egress.errors import WireError
from egress.exchange.coding import is_coded
from egress.exchange.fields import check_fields
from egress.exchange.redirect import may_redirect
from egress.exchange.values import Answer, Cut, Destination, Response
from egress.http1.connection import strip_hop_by_hop
from egress.http1.grammar import VALUE
from egress.http1.trailers import is_forbidden
from egress.scrub import Needles
from egress.types import Cookies, Effects, Headers, Scrub

OWN_PREFIX = "egress-"
"""Fields in our own name: only we may say them to a sandbox."""

_COOKIES = frozenset({"set-cookie", "set-cookie2"})
_REASON = re.compile(rf"[{VALUE}]*+")


def answer_of(
    response: Response,
    destination: Destination,
    effects: Effects,
    needles: Needles,
    found: Counter[str],
    *,
    injected: bool,
    most: int | None = None,
) -> Answer | Cut:
    """The head that the sandbox gets, or why it gets none. Counts what was scrubbed in `found`.

    `most` is how long a body may say that it is.
    """
    try:
        length = check_fields(response.headers)
        headers = strip_hop_by_hop(response.headers)
    except WireError:
        return Cut("upstream.malformed")
    if _REASON.fullmatch(response.reason) is None:
        return Cut("upstream.malformed")
    if response.has_body and most is not None and length is not None and length > most:
        return Cut("limit.response_body")
    # Asked of the fields as they came: a nominated field is taken off, and the body stays coded.
    if _may_hide(response) and searches(effects, needles) and is_coded(response.headers):
        return Cut("response.withheld")
    if not may_redirect(response.status, headers, destination, effects.redirects, injected=injected):
        return Cut("redirect.refused")
    gone = _COOKIES if effects.cookies is Cookies.DROP else frozenset()
    headers = tuple([each for each in headers if each[0] not in gone and not each[0].startswith(OWN_PREFIX)])
    reason, headers = scrub_fields(response.reason, headers, effects, needles, found)
    if effects.scrub is Scrub.BLOCK and found:
        return Cut("response.withheld")
    return Answer(response.status, reason, headers)


def trailers_of(trailers: Headers, effects: Effects, needles: Needles, found: Counter[str]) -> Headers | Cut:
    """The trailers that the sandbox gets: nothing in them may act like a field of the head."""
    if not trailers:
        return trailers
    try:
        check_fields(trailers)
    except WireError:
        return Cut("upstream.malformed")
    kept = tuple(
        [field for field in trailers if not is_forbidden(field[0]) and not field[0].startswith(OWN_PREFIX)]
    )
    _, cleaned = scrub_fields("", kept, effects, needles, found)
    return Cut("response.withheld") if effects.scrub is Scrub.BLOCK and found else cleaned


def scrub_fields(
    reason: str, headers: Headers, effects: Effects, needles: Needles, found: Counter[str]
) -> tuple[str, Headers]:
    """A reason phrase and fields without the secrets of the host: names are searched too."""
    if not searches(effects, needles):
        return reason, headers
    # One search over everything answers for nearly every head; only a hit is worth the details.
    text = "\n".join([reason, *[part for field in headers for part in field]])
    if next(needles.occurrences(text.encode("latin-1", "replace")), None) is None:
        return reason, headers

    def clean(text: str) -> str:
        masked = needles.mask_text(text)
        found.update(masked.found)
        return masked.text

    return clean(reason), tuple([(clean(name), clean(value)) for name, value in headers])


def searches(effects: Effects, needles: Needles) -> bool:
    """Whether the response is searched at all: there are secrets to find, and no rule says otherwise."""
    return effects.scrub is not Scrub.OFF and len(needles) > 0


def _may_hide(response: Response) -> bool:
    return response.has_body or response.status == 101
