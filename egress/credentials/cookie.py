"""Write a credential as the only value of a cookie.

All Cookie headers are merged into one, the other cookies keep their bytes, and ours comes last: an unclosed
quote in a cookie of the sandbox can then hide nothing behind it. Some servers also split at `,`: if that
would reveal a second cookie of our name, the request has two readings and is refused.
"""

from __future__ import annotations

from egress.credentials.header import without_header
from egress.credentials.result import CredentialRefusal, HeadEdit
from egress.credentials.secret_value_check import is_cookie_value
from egress.request_name_folding import MAX_PARTS, fold_cookie
from egress.types import Headers, InjectCookie, Slot

COOKIE_HEADER = "cookie"

_BLANK_CHARS = " \t"


def write_cookie(
    target: str, headers: Headers, need: InjectCookie, value: bytes
) -> HeadEdit | CredentialRefusal:
    """Replace every cookie of the name by a single cookie, and merge all cookies into one header."""
    slot = Slot("cookie", need.name)
    if not is_cookie_value(value):
        return unfit_for_cookie(need.secret, slot)
    sent = sent_cookies(headers)
    kept = other_cookies(sent, need.name)
    if kept is None:
        why = "Servers read these cookies in different ways: there is a `,`, or very many."
        return CredentialRefusal("request.malformed", why, need.secret, slot)
    merged = "; ".join([*kept, f"{need.name}={value.decode('ascii')}"])
    return HeadEdit(
        target, (*without_header(headers, COOKIE_HEADER), (COOKIE_HEADER, merged)), len(kept) != len(sent)
    )


def sent_cookies(headers: Headers) -> list[str]:
    """Return the `name=value` pieces of all Cookie headers, in order."""
    return [
        cookie
        for name, line in headers
        if name == COOKIE_HEADER
        for piece in line.split(";")
        if (cookie := piece.strip(_BLANK_CHARS))
    ]


def other_cookies(sent: list[str], name: str) -> list[str] | None:
    """Return the cookies without those of a name; None for two readings, or very many cookies."""
    if len(sent) + sum(cookie.count(",") for cookie in sent) > MAX_PARTS:
        return None
    folded = fold_cookie(name)
    kept = [cookie for cookie in sent if fold_cookie(cookie_name(cookie)) != folded]
    # Refuse rather than guess which of two cookies the server reads.
    return None if any(_has_inner(cookie, folded) for cookie in kept) else kept


def cookie_name(cookie: str) -> str:
    """Return the name of a `name=value` cookie."""
    return cookie.partition("=")[0].strip(_BLANK_CHARS)


def unfit_for_cookie(secret: str, slot: Slot) -> CredentialRefusal:
    """Refuse a value that a cookie cannot carry."""
    why = 'The value has bytes that a cookie cannot carry: one of `" , ; \\`, a space or non-ASCII.'
    return CredentialRefusal("secret.unavailable", why, secret, slot)


def _has_inner(cookie: str, name: str) -> bool:
    return any("=" in inner and fold_cookie(cookie_name(inner)) == name for inner in cookie.split(","))
