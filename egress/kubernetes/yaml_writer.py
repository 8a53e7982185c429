"""Write values as YAML that every parser reads alike: one key a line, and quotes in case of doubt."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from egress.kubernetes.manifest_text import reads_as_text
from egress.rules.language.document import MissingValue, Scalar, Value

# Fewer characters than YAML allows: a text with any other is quoted.
_PLAIN_TEXT = re.compile(
    r"[A-Za-z0-9/_$(][A-Za-z0-9_./$()@%+-]*|[A-Za-z/](?:[A-Za-z0-9_./$()@%+:=,-]*[A-Za-z0-9_./$()@%+-])?"
)


def write_yaml(value: Value) -> str:
    """Write one document, without a separator. Comments are not values, so there are none."""
    return "".join(f"{line}\n" for line in _lines(value, ""))


def _lines(value: Value, indent: str) -> Iterator[str]:
    """Write a value that begins on a line of its own."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _entry(f"{indent}{_text(key)}:", item, indent)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _item(item, indent)
    else:
        yield f"{indent}{_inline(value)}"


def _entry(start: str, value: Value, indent: str) -> Iterator[str]:
    """Write a value behind its key."""
    if isinstance(value, dict) and value:
        yield start
        yield from _lines(value, f"{indent}  ")
    elif isinstance(value, list) and value:
        yield start
        # Items stand below their key, as kubectl writes them.
        yield from _lines(value, indent)
    elif isinstance(value, str) and _fits_a_block(value):
        yield f"{start} {_block_head(value)}"
        for line in value.removesuffix("\n").split("\n"):
            yield f"{indent}  {line}" if line else ""
    else:
        yield f"{start} {_inline(value)}"


def _item(value: Value, indent: str) -> Iterator[str]:
    """Write an item of a list: its first line stands behind the dash."""
    if not isinstance(value, dict | list) or not value:
        yield f"{indent}- {_inline(value)}"
        return
    first, *rest = _lines(value, f"{indent}  ")
    yield f"{indent}- {first[len(indent) + 2 :]}"
    yield from rest


def _inline(value: Value) -> str:
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list):
        return "[]"
    return _scalar(value)


def _scalar(value: Scalar) -> str:
    if isinstance(value, MissingValue):
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _text(value) if isinstance(value, str) else repr(value)


def _text(text: str) -> str:
    if _PLAIN_TEXT.fullmatch(text) and reads_as_text(text):
        return text
    # JSON's escapes are YAML's, for what they cover.
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isprintable() else "".join(map(_escaped, quoted))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _fits_a_block(text: str) -> bool:
    """Report whether a text can stand as a literal block, line by line as it is."""
    lines = text.removesuffix("\n").split("\n")
    # A space at its start would be taken for indentation.
    return len(lines) > 1 and all(map(str.isprintable, lines)) and bool(lines[0]) and lines[0][0] != " "


def _block_head(text: str) -> str:
    if not text.endswith("\n"):
        return "|-"
    return "|+" if text.endswith("\n\n") else "|"
