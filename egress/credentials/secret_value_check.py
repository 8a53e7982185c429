r"""Check which bytes may be a secret, and which slot can carry them.

Theory of operation. A secret from a file or a command usually ends in a newline. Surrounding whitespace is
never part of a credential, so it is stripped. A control byte inside is never part of one either, and would
end a header line, so such a value is refused for every slot.

Bytes from 0x80 up depend on the slot. Percent-encoding and base64 carry them without loss, so `query`, `path`
and `basic` accept them. A header line has no agreed charset: one server reads latin-1, the next UTF-8, a
third drops the line. The value an upstream would compare is then a guess, so header and cookie slots refuse
them. A cookie also has no room for space, `"`, `,`, `;` and `\`.
"""

from __future__ import annotations

import re

from egress.errors import SecretValueError
from egress.types import Secret

MAX_SECRET_BYTES = 64 * 1024

_CONTROL_BYTES = re.compile(rb"[\x00-\x1f\x7f]")
_COOKIE_OCTETS = re.compile(rb"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+")


def secret_from(name: str, raw: bytes) -> Secret:
    """Make a secret from the bytes of a source.

    Strips surrounding ASCII whitespace. Raises `SecretValueError`, which names the secret and never the
    value, if the rest is empty, larger than 64 KiB, contains a control byte, or begins with a byte order
    mark.
    """
    value = raw.strip()
    fault = _fault(value)
    if not fault:
        return Secret(name, value)
    # A traceback that prints locals must not show the refused value.
    del raw, value
    problem, cure = fault
    raise SecretValueError(f"the value of secret {name!r} {problem}", cure)


def _fault(value: bytes) -> tuple[str, str] | None:
    if not value:
        return "is empty", "put the credential at the source that `from:` names"
    if len(value) > MAX_SECRET_BYTES:
        return "is larger than 64 KiB", "check that `from:` names a credential and not another file"
    if value.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        return "begins with a byte order mark", "save it as plain text without a byte order mark"
    if has_control_byte(value):
        return (
            "contains a control character",
            "store the credential as one line; base64-encode a key of several lines first",
        )
    return None


def has_control_byte(value: bytes) -> bool:
    """Report whether the value contains a control byte."""
    return _CONTROL_BYTES.search(value) is not None


def is_cookie_value(value: bytes) -> bool:
    """Report whether a cookie can carry this value unchanged."""
    return _COOKIE_OCTETS.fullmatch(value) is not None
