"""Other texts in the place of a text: a pattern without one of its parts, an alphabet without a sign.

A pattern that has lost a part must still be a pattern, or the fault would show by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# A range of a class, an escape, a quantifier, or one character.
_PART = re.compile(
    r"\\x[0-9a-fA-F]{2}-\\x[0-9a-fA-F]{2}|[0-9A-Za-z]-[0-9A-Za-z]|\\x[0-9a-fA-F]{2}|\\.|\{[0-9,]+\}|\(\?[:=!>i]|\(\?<[=!]|.",
    re.DOTALL,
)
_ALPHABET = re.compile(r"[\x21-\x7e]{20,}")


def weakened(text: str, *, in_pattern: bool) -> Iterator[str]:
    """Yield the texts that are tried in the place of this one."""
    if in_pattern:
        yield from _without_a_part(text)
    elif _ALPHABET.fullmatch(text) and len(set(text)) == len(text):
        yield from _without_a_sign(text)
    else:
        yield text + "X" if text else "X"


def _without_a_part(pattern: str) -> Iterator[str]:
    seen = {pattern}
    for part in _PART.finditer(pattern):
        other = pattern[: part.start()] + pattern[part.end() :]
        if other not in seen and _is_pattern(other):
            seen.add(other)
            yield other


def _is_pattern(text: str) -> bool:
    # Braces of a formatted string stand for what is not known here.
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _without_a_sign(alphabet: str) -> Iterator[str]:
    """Yield it without each sign, of letters and digits only the first and the last."""
    plain = [at for at, sign in enumerate(alphabet) if sign.isalnum()]
    dull = set(plain[1:-1])
    for at in range(len(alphabet)):
        if at not in dull:
            yield alphabet[:at] + alphabet[at + 1 :]
