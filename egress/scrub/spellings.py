"""The spellings in which a secret comes back from a server that echoes what it was sent.

Theory of operation. A secret reaches an answer as itself, or inside something that was encoded as
a whole: base64 of `user:secret`, a JSON text, a URL, a page. Each encoding below is written as the
bytes it *always* leaves behind, whatever stands around the secret. For JSON, URLs and pages that
is the encoded secret. Base64 packs three bytes into four characters, so the same secret has three
looks, one for each position modulo three; of each look only the characters whose six bits all come
from the secret are fixed, and only those are used. At most four bits of the first and of the last
byte stay outside.

Carriers nest once: the base64 forms are written as JSON, URLs and pages carry them too, because an
echoed `Authorization: Basic` is what a JSON echo service returns. So is the percent-encoded form, which is
how a secret stands in a query: the URL of a request comes back in the query of another one, such as the
`?next=` of a page for signing in, and is escaped a second time there. A JSON text is nested in another one
by services that pass on what a service behind them said. Deeper nesting is not covered.

Needs no knowledge of where the spellings are used, and must not drop one: a missing spelling is a
leak, a superfluous one costs some nanoseconds.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from itertools import product
from urllib.parse import quote

from egress.errors import SecretValueError
from egress.types import Secret

MIN_SECRET_BYTES = 8
"""Below this many bytes a secret would also be found in innocent text."""

_ALPHANUMERIC_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

# Characters that encoders leave as they are, besides letters and digits.
_URL_SAFE_SETS = (
    b"-._~",  # RFC 3986 unreserved; quote(safe="")
    b"-._~/",  # quote()
    b"-._~!'()*",  # encodeURIComponent
    b"-._*",  # form fields of a browser
    b"-._",  # urlencode of PHP
    b"-._!*()",  # UrlEncode of .NET
    b"-._~/?:@!$&'()*+,;=",  # every character of a path or a query
    b"-._~/?:@!$&'()*+,;=#",  # encodeURI
    b"-._~!$&'()*+,;=:@",  # a segment of a path, RFC 3986
    b"-._~$&+=:@",  # the same in Go
    b"-._~$&+,/:;=@",  # a path in Go
)
_URL_SPACES = ("%20", "+")

# Characters that JSON encoders write as \u00XX although they need not.
_JSON_ESCAPED_SETS = (
    "",  # most
    "<>&",  # Go, Python in a page
    "<>&'=",  # Gson
    "<>&'\"+`",  # System.Text.Json
    "<>&'\"",  # json_encode of PHP with all its flags
    "<>&'\"=-;`",  # escapejs of Django
    "/",  # encoders that keep `</script>` out of a page
    "<>&'\"/",  # the same, with all that a page could take for markup
)
_JSON_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}

_HTML_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_HTML_TABLES = (
    _HTML_ENTITIES,
    _HTML_ENTITIES | {'"': "&quot;"},
    _HTML_ENTITIES | {'"': "&quot;", "'": "&#x27;"},
    _HTML_ENTITIES | {'"': "&quot;", "'": "&#39;"},
    _HTML_ENTITIES | {'"': "&quot;", "'": "&#039;"},  # PHP
    _HTML_ENTITIES | {'"': "&quot;", "'": "&apos;"},  # XML
    _HTML_ENTITIES | {'"': "&#34;", "'": "&#39;"},
    _HTML_ENTITIES | {'"': "&#34;", "'": "&#39;", "+": "&#43;"},  # html/template of Go
    _HTML_ENTITIES | {'"': "&quot;", "'": "&#x27;", "+": "&#x2B;"},  # ASP.NET Core
    _HTML_ENTITIES | {'"': "&quot;", "'": "&#x27;", "/": "&#x2F;"},
    _HTML_ENTITIES | {'"': "&quot;", "'": "&#x27;", "`": "&#x60;", "=": "&#x3D;"},  # Handlebars
    _HTML_ENTITIES | {'"': "&quot;", "'": "&#39;", "/": "&#x2F;", "`": "&#x60;", "=": "&#x3D;"},  # Mustache
    _HTML_ENTITIES | {'"': "&#34;", "'": "&#39;", "/": "&#47;"},
)

_MAX_MIXED_ESCAPES = 4
"""Above this many escapes the spellings that mix capital and small digits are too many to search."""
_ESCAPE_WITH_LETTER = re.compile(rb"%(?:[0-9][A-F]|[A-F][0-9A-F])")


def spellings(secret: Secret) -> frozenset[bytes]:
    """Return every byte string under which this secret is looked for.

    Raises SecretValueError, naming the secret only, when the value is too short to be told from
    innocent text.
    """
    value = secret.reveal()
    if len(value) < MIN_SECRET_BYTES:
        raise SecretValueError(
            f"secret {secret.name!r} has fewer than {MIN_SECRET_BYTES} bytes and cannot be scrubbed",
            "Use a longer secret, or write `scrub: off` where it is injected.",
        )
    found = {value, value.lower(), value.upper(), *_hexadecimal(value), *_every_byte_escaped(value)}
    found.update(_in_wide_characters(value))
    found.update(mixed for escaped in _in_url(value) for mixed in _of_mixed_case(escaped))
    in_query = quote(value, safe="").encode()
    for carried in {value, in_query, *_base64_cores(value), *_base64_cores(in_query)}:
        found.add(carried)
        found.update(_in_url(carried))
        found.update(_in_json(carried))
        found.update(_in_html(carried))
    return frozenset(found)


def _hexadecimal(value: bytes) -> Iterator[bytes]:
    digits = value.hex().encode()
    yield digits
    yield digits.upper()


def _in_wide_characters(value: bytes) -> Iterator[bytes]:
    """Yield the value in UTF-16 and UTF-32; of ASCII the part that both byte orders have in common."""
    if value.isascii():
        yield from (
            zeros.join(value[at : at + 1] for at in range(len(value))) for zeros in (b"\0", b"\0\0\0")
        )
    else:
        yield from (_as_text(value).encode(encoding) for encoding in ("utf-16-le", "utf-16-be"))


def _of_mixed_case(escaped: bytes) -> Iterator[bytes]:
    """Yield percent-encoded text with the digits of each escape in capital or in small letters."""
    spots = [match.span() for match in _ESCAPE_WITH_LETTER.finditer(escaped)]
    if not 2 <= len(spots) <= _MAX_MIXED_ESCAPES:
        return
    for choice in product((bytes.upper, bytes.lower), repeat=len(spots)):
        mixed = bytearray(escaped)
        for (start, end), change in zip(spots, choice, strict=True):
            mixed[start:end] = change(escaped[start:end])
        yield bytes(mixed)


def _every_byte_escaped(value: bytes) -> Iterator[bytes]:
    for form in (b"%%%02x", b"%%%02X", b"\\u00%02x", b"\\u00%02X", b"\\x%02x", b"\\x%02X"):
        yield b"".join(form % byte for byte in value)
    for entity in ("&#%d;", "&#x%x;", "&#x%X;"):
        yield "".join(entity % ord(char) for char in _as_text(value)).encode()


def _base64_cores(value: bytes) -> Iterator[bytes]:
    """Yield the part of base64 that any text around the secret leaves unchanged, per alignment."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + value)
        first = -(-8 * before // 6)
        past = 8 * (before + len(value)) // 6
        core = encoded[first:past]
        yield core
        yield core.replace(b"+", b"-").replace(b"/", b"_")


def _in_url(value: bytes) -> Iterator[bytes]:
    special = [byte for byte in set(value) if byte not in _ALPHANUMERIC_BYTES]
    text = value.decode("latin-1")
    for safe, space, form in product(_URL_SAFE_SETS, _URL_SPACES, ("%%%02x", "%%%02X")):
        table = {byte: form % byte for byte in special if byte not in safe}
        if 0x20 in table:
            table[0x20] = space
        yield text.translate(table).encode("latin-1")


def _in_json(value: bytes) -> Iterator[bytes]:
    text = _as_text(value)
    for caution, slash, plain, form in product(
        _JSON_ESCAPED_SETS, ("/", "\\/"), (False, True), ("\\u%04x", "\\u%04X")
    ):
        table = {ord(char): _json_char(char, form, plain=plain) for char in set(text)}
        table |= {ord(char): short for char, short in _JSON_SHORT_ESCAPES.items()} | {ord("/"): slash}
        table |= {ord(char): form % ord(char) for char in caution}
        once = text.translate(table)
        yield once.encode()
        # Inside another JSON text a slash stays, or is escaped once more.
        if once != text:
            yield once.replace("\\", "\\\\").replace('"', '\\"').encode()
            yield once.replace("\\", "\\\\").replace('"', '\\"').replace("/", "\\/").encode()


def _json_char(char: str, form: str, *, plain: bool) -> str:
    if " " <= char <= "~" or (plain and char > "~"):
        return char
    units = char.encode("utf-16-be")
    return "".join(form % int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))


def _in_html(value: bytes) -> Iterator[bytes]:
    text = _as_text(value)
    for table in _HTML_TABLES:
        yield text.translate({ord(char): entity for char, entity in table.items()}).encode()
        # Libraries write the digits of an entity in capitals or in small letters.
        yield text.translate({ord(char): entity.lower() for char, entity in table.items()}).encode()


def _as_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
