"""The response half: which parts of an upstream's head and trailers reach the sandbox.

Every byte of a response is chosen by the upstream, or by the author of its contents. Fields of the
connection and fields in our own name are removed; cookies and redirects are held to the rules; then
the whole head is searched for the secrets of the host, names and reason too.

A coded body that will be searched goes out decoded. Its head would describe other bytes than those
that follow, so fields with their length, digest, ranges or exact version are dropped. Digests in
vendor fields are not known here and stay.

Stated limits: those of `egress.scrub` and `content_coding`. A secret that comes back in pieces, such
as two ranges of one resource, is not seen: Range stays, since downloads resume with it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from egress.errors import WireError
from egress.exchange.content_coding import ContentCoding
from egress.exchange.messages import AnswerHead, CutExchange, Destination, Response
from egress.exchange.request import names_destination
from egress.http1.fields import CheckedFields, is_forbidden
from egress.http1.grammar import VALUE_CHARS
from egress.inspect.inspector import AnswerReader
from egress.scrub import MAX_HITS, Needles
from egress.types import Cookies, Effects, Headers, Redirects, Scrub

OWN_FIELD_PREFIX = "egress-"
"""Fields in our own name: only we may say them to a sandbox."""

DIGEST_FIELDS = frozenset({"content-md5", "digest", "content-digest", "repr-digest"})
"""Fields, of a head or of trailers, that no longer hold for a body that was decoded."""

_CODED_BODY_FIELDS = DIGEST_FIELDS | {"content-encoding", "content-length", "accept-ranges"}
NO_NAMES = frozenset[str]()
_COOKIE_FIELDS = frozenset({"set-cookie", "set-cookie2"})
_REASON_PATTERN = re.compile(rf"[{VALUE_CHARS}]*+")
_CODING_FIELDS = frozenset(
    {"content-encoding", "grpc-encoding", "connect-content-encoding", "im", "sec-websocket-extensions"}
)
_PLAIN_CODINGS = frozenset({"", "identity"})
_DECODABLE_CODINGS: Final = {
    "gzip": ContentCoding.GZIP,
    "x-gzip": ContentCoding.GZIP,
    "deflate": ContentCoding.DEFLATE,
    "br": ContentCoding.BROTLI,
    "zstd": ContentCoding.ZSTD,
}
_USUAL_TYPE_PATTERN = re.compile(r"[a-z0-9.+-]++/[a-z0-9.+-]++(?:; ?charset=utf-8)?+", re.IGNORECASE)
_CHARSET_PATTERN = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]*)", re.IGNORECASE)
_READABLE_CHARSETS = frozenset(
    {"", "utf-8", "utf8", "us-ascii", "ascii", "big5", "gb2312", "gbk", "shift_jis", "euc-jp", "euc-kr"}
)
_CHARSET_FAMILY = re.compile(
    r"(?:iso-8859-|iso8859-|latin-?|windows-125|cp125|koi8-)[0-9a-z]{1,2}", re.IGNORECASE
)
_GRPC_TYPE: Final = re.compile(r"application/grpc(?:\+[a-z0-9.+-]++)?+(?:[ \t]*+;.*+)?+", re.IGNORECASE)


def cleaned_answer(
    response: Response,
    destination: Destination,
    effects: Effects,
    needles: Needles | None,
    found: Counter[str],
    *,
    injected: bool,
    max_bytes: int | None = None,
    reader: AnswerReader | None = None,
) -> AnswerHead | CutExchange:
    """Return the head that the sandbox gets, or the cut. Counts scrubbed secrets in `found`.

    `needles` are None if no secret can come back: the head is then not searched. `max_bytes`
    is the largest length that a body may state; `reader` reads the body.
    """
    try:
        fields = CheckedFields(response.headers)
        headers = fields.end_to_end()
    except WireError:
        return CutExchange("upstream.malformed")
    if _REASON_PATTERN.fullmatch(response.reason) is None:
        return CutExchange("upstream.malformed")
    if response.has_body and max_bytes is not None and (fields.length or 0) > max_bytes:
        return CutExchange("limit.response_body")
    searched = None if effects.scrub is Scrub.OFF else needles
    is_read = searched is not None or reader is not None
    coding = _coding_to_decode(response, headers) if is_read else ContentCoding.PLAIN
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
    # The text of all fields exists already, and nearly always holds no secret.
    if searched is not None and holds_secret(searched, f"{reason}\n{fields.text}"):
        reason, headers = scrub_fields(reason, headers, effects, searched, found)
    if must_withhold(effects, found):
        return CutExchange("response.withheld")
    is_changed = reader is not None and reader.changes_length
    if coding is not ContentCoding.PLAIN or is_changed:
        headers = _decoded_fields(headers, is_empty=fields.length == 0 and not response.has_body)
    is_decoded = coding is not ContentCoding.PLAIN and response.has_body
    return AnswerHead(
        response.status,
        reason,
        headers,
        coding if is_decoded else None,
        is_read=is_changed,
        is_held=reader is not None and reader.holds_head,
    )


def cleaned_trailers(
    trailers: Headers,
    effects: Effects,
    needles: Needles | None,
    found: Counter[str],
    gone: frozenset[str] = NO_NAMES,
) -> Headers | CutExchange:
    """Return the trailers that the sandbox gets: none of them may act like a field of the head.

    `gone` are the names of further fields to drop.
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
    return CutExchange("response.withheld") if must_withhold(effects, found) else cleaned


def must_withhold(effects: Effects, found: Counter[str]) -> bool:
    """Tell whether what was found in a response ends it: a rule says so, or there is too much to mask."""
    return bool(found) and (effects.scrub is Scrub.BLOCK or found.total() > MAX_HITS)


def scrub_fields(
    reason: str, headers: Headers, effects: Effects, needles: Needles | None, found: Counter[str]
) -> tuple[str, Headers]:
    """Return a reason phrase and fields without the secrets of the host: names are searched too."""
    if needles is None or effects.scrub is Scrub.OFF:
        return reason, headers
    # A single search over the whole text settles nearly every head; only a hit is worth the details.
    if not holds_secret(needles, "\n".join([reason, *[part for field in headers for part in field]])):
        return reason, headers

    def clean(text: str) -> str:
        masked = needles.mask_text(text)
        found.update(masked.found)
        return masked.text

    return clean(reason), tuple([(clean(name), clean(value)) for name, value in headers])


def needs_search(effects: Effects, needles: Needles | None) -> bool:
    """Tell whether the response is searched: a secret can come back, and no rule turns the search off.

    It is searched even before a value is known: the value may arrive while the response runs.
    """
    return effects.scrub is not Scrub.OFF and needles is not None


def holds_secret(needles: Needles, text: str) -> bool:
    """Tell whether any secret stands in this text off the wire."""
    return needles.occur_in(text.encode("latin-1", "replace"))


def coding_of(headers: Headers) -> ContentCoding:
    """Return how a response says that its contents, messages or frames are coded."""
    codings: list[tuple[str, str]] = []
    for name, value in headers:
        if name == "content-type":
            if not _is_readable(value):
                return ContentCoding.UNREADABLE
        elif name in _CODING_FIELDS:
            codings.append((name, value.strip(" \t").lower()))
    coded = [each for each in codings if each[1] not in _PLAIN_CODINGS]
    if not coded:
        return ContentCoding.PLAIN
    of_body = [coding for name, coding in codings if name == "content-encoding"]
    # Two fields are a list, even where one of them says nothing.
    if len(coded) > 1 or len(of_body) != 1 or coded[0][0] != "content-encoding":
        return ContentCoding.UNREADABLE
    return _DECODABLE_CODINGS.get(of_body[0], ContentCoding.UNREADABLE)


def _is_readable(content_type: str) -> bool:
    """Tell whether the charset, if named, writes ASCII as ASCII: secrets are searched for in ASCII."""
    if _USUAL_TYPE_PATTERN.fullmatch(content_type) is not None:
        return True
    charsets = _CHARSET_PATTERN.findall(content_type)
    return all(
        charset.lower() in _READABLE_CHARSETS or _CHARSET_FAMILY.fullmatch(charset) for charset in charsets
    )


def is_grpc(headers: Headers) -> bool:
    """Tell whether a response with these fields consists of gRPC messages."""
    kinds = [value for name, value in headers if name == "content-type"]
    return len(kinds) == 1 and _GRPC_TYPE.fullmatch(kinds[0]) is not None


def _coding_to_decode(response: Response, headers: Headers) -> ContentCoding:
    """Return the coding to decode for the search; `UNREADABLE` if the body has a coding that cannot be.

    Only a single known coding of a whole body can be decoded, stated in a field that travels on.
    """
    # The fields are read as they came: a nominated field is removed, and the body stays coded.
    coding = coding_of(response.headers)
    if coding is ContentCoding.PLAIN:
        return coding
    names = [name for name, _ in headers]
    is_whole = response.status >= 200 and response.status != 206 and "content-range" not in names
    if coding is not ContentCoding.UNREADABLE and is_whole and "content-encoding" in names:
        return coding
    return ContentCoding.UNREADABLE if response.has_body or response.status == 101 else ContentCoding.PLAIN


def _decoded_fields(headers: Headers, *, is_empty: bool) -> Headers:
    """Return the fields as they hold for the decoded contents; the length of an empty body stays."""
    gone = _CODED_BODY_FIELDS - {"content-length"} if is_empty else _CODED_BODY_FIELDS
    return tuple([_weakened(field) for field in headers if field[0] not in gone])


def _weakened(field: tuple[str, str]) -> tuple[str, str]:
    """Weaken a strong ETag: it promises the same bytes, and the decoded ones differ."""
    name, value = field
    return (name, f"W/{value}") if name == "etag" and not value.startswith("W/") else field


# A redirect leaks no secret by itself: the client follows it with the sandbox's own values, and the new
# request is decided on its own. It is checked all the same, for the rule about redirects, for clients that
# read `same-host` differently, and for URLs that are credentials themselves.
#
# Checked: `Location` of a 3xx and `Refresh`, which browsers follow on any status. `Location` is searched for
# a credential on every status: a 201 can hand one out too. Not checked, because clients do not follow
# them by themselves: `Content-Location`, `Link`, and the host of `Location` on a 2xx. A credential in the
# path of a URL, or under an unknown name, is not recognised.


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
    """Tell whether the rules let every redirect in these fields through."""
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
    """Tell whether every client that follows this URL stays at the destination."""
    plain = _as_read(url)
    # Readings differ: to a browser a backslash is a slash, to a library it is part of the host.
    if "\\" in plain:
        return False
    absolute = _ABSOLUTE_URL.match(plain)
    if absolute is None:
        return _SCHEME.match(plain) is None
    scheme = (absolute[1] or destination.scheme).lower()
    return scheme == destination.scheme and names_destination(destination, absolute[2])


def carries_credential(url: str) -> bool:
    """Tell whether the URL has a signature, a token or the like in its query, fragment or user part."""
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
    # No honest URL is escaped this often, and a URL that cannot be read must not pass as read.
    return unquote(plain, "latin-1") != plain


def _as_read(url: str) -> str:
    return re.sub(r"[\t\r\n]", "", url).strip(" ")
