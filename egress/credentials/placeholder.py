"""Derive the placeholder that a sandbox holds instead of a secret.

Theory of operation. Many clients check the form of a key before they send it, so a placeholder has the form
of the real secret. It is derived with HMAC-SHA256 from a key of one sandbox, the shape and the name of the
secret. The value of the secret is no input, so a placeholder reveals nothing about it. Without the key, one
placeholder reveals nothing about another: a sandbox can forge neither its neighbour's nor its own for a
secret it was not given. A placeholder is worthless outside of Egress, yet looks real to a secret scanner, so
a leak gets noticed.
"""

from __future__ import annotations

import hmac
import string
import zlib
from collections.abc import Callable, Iterator
from itertools import count

from egress.errors import UsageError
from egress.types import Shape

MIN_KEY_BYTES = 32

_BASE62_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_BASE32_ALPHABET = string.ascii_uppercase + "234567"
_HEX_ALPHABET = "0123456789abcdef"


def make_placeholder(like: Shape, key: bytes, secret: str) -> str:
    """Derive the placeholder for the named secret in the sandbox that owns `key`.

    The same arguments always give the same value. Raises `UsageError` for a short key or an unknown
    shape.
    """
    if len(key) < MIN_KEY_BYTES:
        raise UsageError(
            f"a placeholder key needs {MIN_KEY_BYTES} random bytes", "generate one key per sandbox"
        )
    form = _MAKERS_BY_SHAPE.get(like)
    if form is None:
        raise UsageError(f"unknown placeholder shape {like!r}", f"use one of: {', '.join(_MAKERS_BY_SHAPE)}")
    return form(_stream(f"egress placeholder\0{like}\0{secret}\0".encode(), key))


def _stream(label: bytes, key: bytes) -> Iterator[int]:
    # The counter has a fixed length and shapes contain no NUL, so no two labels can run together.
    for block in count():
        yield from hmac.digest(key, label + block.to_bytes(4, "big"), "sha256")


def _take(stream: Iterator[int], alphabet: str, length: int) -> str:
    # Bytes above the last full multiple are skipped: a plain remainder would favour some characters.
    usable = 256 - 256 % len(alphabet)
    drawn = (alphabet[byte % len(alphabet)] for byte in stream if byte < usable)
    return "".join(next(drawn) for _ in range(length))


def _github(stream: Iterator[int]) -> str:
    entropy = _take(stream, _BASE62_ALPHABET, 30)
    return f"ghp_{entropy}{github_checksum(entropy)}"


def github_checksum(entropy: str) -> str:
    """Compute the last six characters of a GitHub token: CRC32 in base62, padded with zeros."""
    number = zlib.crc32(entropy.encode("ascii"))
    digits = ""
    while number:
        number, digit = divmod(number, 62)
        digits = _BASE62_ALPHABET[digit] + digits
    return digits.rjust(6, "0")


def _openai(stream: Iterator[int]) -> str:
    return f"sk-proj-{_take(stream, _BASE62_ALPHABET, 74)}T3BlbkFJ{_take(stream, _BASE62_ALPHABET, 74)}"


def _anthropic(stream: Iterator[int]) -> str:
    return f"sk-ant-api03-{_take(stream, _BASE62_ALPHABET, 93)}AA"


def _aws(stream: Iterator[int]) -> str:
    return f"AKIA{_take(stream, _BASE32_ALPHABET, 16)}"


def _uuid(stream: Iterator[int]) -> str:
    digits = _take(stream, _HEX_ALPHABET, 15)
    variant = _take(stream, "89ab", 1)
    tail = _take(stream, _HEX_ALPHABET, 15)
    return f"{digits[:8]}-{digits[8:12]}-4{digits[12:]}-{variant}{tail[:3]}-{tail[3:]}"


def _hex32(stream: Iterator[int]) -> str:
    return _take(stream, _HEX_ALPHABET, 32)


_MAKERS_BY_SHAPE: dict[Shape, Callable[[Iterator[int]], str]] = {
    "github": _github,
    "openai": _openai,
    "anthropic": _anthropic,
    "aws": _aws,
    "uuid": _uuid,
    "hex32": _hex32,
}
