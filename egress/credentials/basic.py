"""Write, read and rewrite `Authorization: Basic` credentials.

The user part ends at the first colon, so neither a configured user nor a secret swapped into the user part
may contain a colon: the rest would become part of the password.
"""

from __future__ import annotations

import binascii
import re

from egress.credentials.header import without_header
from egress.credentials.result import CredentialRefusal, HeadEdit
from egress.credentials.secret_value_check import has_control_byte
from egress.types import Headers, InjectBasic, Slot

AUTHORIZATION_HEADER = "authorization"
AUTHORIZATION_SLOT = Slot("header", AUTHORIZATION_HEADER)

_BASIC_LINE = re.compile(r"([Bb][Aa][Ss][Ii][Cc] +)([A-Za-z0-9+/]+={0,2}) *")


def write_basic(
    target: str, headers: Headers, need: InjectBasic, value: bytes
) -> HeadEdit | CredentialRefusal:
    """Replace `Authorization` by `Basic base64(user:value)`."""
    user = need.user.encode("utf-8", "replace")
    if b":" in user or has_control_byte(user):
        return CredentialRefusal(
            "internal", "The user of a Basic credential has a colon or a control character."
        )
    if has_control_byte(value):
        return CredentialRefusal(
            "secret.unavailable", "The value has a control character.", need.secret, AUTHORIZATION_SLOT
        )
    kept = without_header(headers, AUTHORIZATION_HEADER)
    line = "Basic " + _encoded(user + b":" + value)
    return HeadEdit(target, (*kept, (AUTHORIZATION_HEADER, line)), len(kept) != len(headers))


def read_basic(line: str) -> str | None:
    """Return `user:password` of a well-formed Basic credential, one character a byte; else None."""
    match = _BASIC_LINE.fullmatch(line)
    if match is None:
        return None
    try:
        pair = binascii.a2b_base64(match[2], strict_mode=True)
    except binascii.Error:
        return None
    # Python versions differ in strictness (padding, stray bits), so the pair must encode to the same text.
    return pair.decode("latin-1") if b":" in pair and _encoded(pair) == match[2] else None


def rewrite_basic(line: str, pair: bytes) -> str:
    """Put another `user:password` into a line that `read_basic` accepts."""
    scheme, _, _ = line.rstrip(" ").rpartition(" ")
    return f"{scheme} {_encoded(pair)}"


def _encoded(pair: bytes) -> str:
    return binascii.b2a_base64(pair, newline=False).decode("ascii")
