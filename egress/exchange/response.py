"""The response half: what of an upstream's head and trailers reaches the sandbox.

Every byte of a response was chosen by the upstream, or by whoever wrote what it serves. Fields of
the connection and fields in our own name are taken off; cookies and redirects are held to the rules;
then the whole head is searched for the secrets of the host, names and reason too.

A body that is going to be searched although it is coded goes out decoded. Then the head speaks of
other bytes than those that follow, so what states their length, digest, ranges or exact version goes.
Digests in fields of a vendor's own are not known here and stay.

Stated limits: those of `egress.scrub`, of `redirect` and of `coding`. A secret that comes back in
pieces, such as two ranges of one resource, is not seen: Range stays, since downloads resume with it.
"""

from __future__ import annotations

import re
from collections import Counter

from egress.errors import WireError
from egress.exchange.content_coding import ContentCoding, coding_of
from egress.exchange.messages import AnswerHead, CutExchange, Destination, Response
from egress.exchange.redirect import REDIRECT_FIELDS, may_redirect
from egress.http1.fields import CheckedFields, is_forbidden
from egress.http1.grammar import VALUE_CHARS
from egress.scrub import Needles
from egress.types import Cookies, Effects, Headers, Scrub

OWN_FIELD_PREFIX = "egress-"
"""Fields in our own name: only we may say them to a sandbox."""

DIGEST_FIELDS = frozenset({"content-md5", "digest", "content-digest", "repr-digest"})
"""Fields, of a head or of trailers, that no longer hold for a body that was decoded."""

_CODED_BODY_FIELDS = DIGEST_FIELDS | {"content-encoding", "content-length", "accept-ranges"}
NO_NAMES = frozenset[str]()
_COOKIE_FIELDS = frozenset({"set-cookie", "set-cookie2"})
_REASON_PATTERN = re.compile(rf"[{VALUE_CHARS}]*+")


def cleaned_answer(
    response: Response,
    destination: Destination,
    effects: Effects,
    needles: Needles | None,
    found: Counter[str],
    *,
    injected: bool,
    most: int | None = None,
) -> AnswerHead | CutExchange:
    """The head that the sandbox gets, or why it gets none. Counts what was scrubbed in `found`.

    `needles` are None where no secret can come back; then nothing is searched. `most` is how long a
    body may say that it is.
    """
    try:
        fields = CheckedFields(response.headers)
        headers = fields.end_to_end()
    except WireError:
        return CutExchange("upstream.malformed")
    if _REASON_PATTERN.fullmatch(response.reason) is None:
        return CutExchange("upstream.malformed")
    if response.has_body and most is not None and (fields.length or 0) > most:
        return CutExchange("limit.response_body")
    searched = None if effects.scrub is Scrub.OFF else needles
    coding = _coding_to_decode(response, headers) if searched is not None else ContentCoding.PLAIN
    if coding is ContentCoding.UNREADABLE:
        return CutExchange("response.withheld")
    if fields.has_any(REDIRECT_FIELDS) and not may_redirect(
        response.status, headers, destination, effects.redirects, injected=injected
    ):
        return CutExchange("redirect.refused")
    gone = _COOKIE_FIELDS if effects.cookies is Cookies.DROP else NO_NAMES
    if fields.has_prefix(OWN_FIELD_PREFIX) or fields.has_any(gone):
        headers = tuple([e for e in headers if e[0] not in gone and not e[0].startswith(OWN_FIELD_PREFIX)])
    reason = response.reason
    # Over all fields that came, in the text that is there already: nearly always the answer is no.
    if searched is not None and holds_secret(searched, f"{reason}\n{fields.text}"):
        reason, headers = scrub_fields(reason, headers, effects, searched, found)
    if effects.scrub is Scrub.BLOCK and found:
        return CutExchange("response.withheld")
    if coding is not ContentCoding.PLAIN:
        headers = _decoded_fields(headers, is_empty=fields.length == 0 and not response.has_body)
        coding = coding if response.has_body else ContentCoding.PLAIN
    return AnswerHead(response.status, reason, headers, coding)


def cleaned_trailers(
    trailers: Headers,
    effects: Effects,
    needles: Needles | None,
    found: Counter[str],
    gone: frozenset[str] = NO_NAMES,
) -> Headers | CutExchange:
    """The trailers that the sandbox gets: nothing in them may act like a field of the head.

    `gone` are the names of more fields that do not go on.
    """
    if not trailers:
        return trailers
    try:
        CheckedFields(trailers)
    except WireError:
        return CutExchange("upstream.malformed")
    kept = tuple(
        [
            field
            for field in trailers
            if field[0] not in gone
            and not is_forbidden(field[0])
            and not field[0].startswith(OWN_FIELD_PREFIX)
        ]
    )
    _, cleaned = scrub_fields("", kept, effects, needles, found)
    return CutExchange("response.withheld") if effects.scrub is Scrub.BLOCK and found else cleaned


def scrub_fields(
    reason: str, headers: Headers, effects: Effects, needles: Needles | None, found: Counter[str]
) -> tuple[str, Headers]:
    """A reason phrase and fields without the secrets of the host: names are searched too."""
    if needles is None or effects.scrub is Scrub.OFF:
        return reason, headers
    # One search over everything answers for nearly every head; only a hit is worth the details.
    if not holds_secret(needles, "\n".join([reason, *[part for field in headers for part in field]])):
        return reason, headers

    def clean(text: str) -> str:
        masked = needles.mask_text(text)
        found.update(masked.found)
        return masked.text

    return clean(reason), tuple([(clean(name), clean(value)) for name, value in headers])


def needs_search(effects: Effects, needles: Needles | None) -> bool:
    """Whether the response is searched at all: a secret can come back, and no rule says otherwise.

    It is also while no value is known yet: it may be before the response has ended.
    """
    return effects.scrub is not Scrub.OFF and needles is not None


def holds_secret(needles: Needles, text: str) -> bool:
    """Whether any secret stands in this text off the wire."""
    return needles.occur_in(text.encode("latin-1", "replace"))


def _coding_to_decode(response: Response, headers: Headers) -> ContentCoding:
    """The coding that is decoded for the search; `UNREADABLE` where there is one that cannot be.

    Only one known coding of a whole body can, said in a field that is not of the connection.
    """
    # Asked of the fields as they came: a nominated field is taken off, and the body stays coded.
    coding = coding_of(response.headers)
    if coding is ContentCoding.PLAIN:
        return coding
    names = [name for name, _ in headers]
    is_whole = response.status >= 200 and response.status != 206 and "content-range" not in names
    if coding is not ContentCoding.UNREADABLE and is_whole and "content-encoding" in names:
        return coding
    return ContentCoding.UNREADABLE if response.has_body or response.status == 101 else ContentCoding.PLAIN


def _decoded_fields(headers: Headers, *, is_empty: bool) -> Headers:
    """The fields as they hold for the decoded contents; the length of an empty body stays."""
    gone = _CODED_BODY_FIELDS - {"content-length"} if is_empty else _CODED_BODY_FIELDS
    return tuple([_weakened(field) for field in headers if field[0] not in gone])


def _weakened(field: tuple[str, str]) -> tuple[str, str]:
    """A strong ETag promises the same bytes, which these are not any more."""
    name, value = field
    return (name, f"W/{value}") if name == "etag" and not value.startswith("W/") else field
