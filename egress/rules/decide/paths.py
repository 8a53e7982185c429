r"""Canonical paths of requests: one safe spelling, or a refusal.

Theory of operation. Servers disagree about `%2e`, `//`, `;` and `\`. If a rule matches one reading and the
server acts on another, the rule is bypassed. So a path is either brought to a spelling that all servers
read alike, and exactly this spelling is forwarded, or the request is refused.

    kept        unreserved characters, sub-delims, `:` and `@`, `/`, `[` and `]`
    decoded     %XX of unreserved characters
    upper-cased every other %XX
    encoded     bytes >= 0x80 and " < > ^ ` { | }
    refused     anything else, `.` and `..` segments, %20 at either end of a segment, %25 before two hex
                digits, overlong UTF-8; and where rules look at paths, empty segments, `;`, %3F and %2F
                (unless a rule takes it as data)
"""

from __future__ import annotations

import re

# Longer than any path in practice, short enough to match patterns against.
MAX_PATH_BYTES = 16 * 1024
# Bounds the work of a deny on a path whose slashes can be read in two ways.
MAX_ESCAPED_SLASHES = 32

_SUSPECT_SPELLING = re.compile(r"[^A-Za-z0-9._~!$&'()*+,=:@/-]|//|/\.")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPE_OR_TEXT = re.compile(r"%..|[^%]+", re.DOTALL)
_ENCODE = re.compile(r'[\x80-\xff"<>^`{|}]')
_FORBIDDEN_CHARS = re.compile(r"[\x00-\x20\x7f#\\\u0100-\U0010ffff]")
_FORBIDDEN_ESCAPE = re.compile(r"%(?:[01][0-9A-F]|7F|23|5C)")
# Some servers trim spaces, and dots behind them, off a segment: then `/user%20` is `/user`.
_SPACE_AT_EDGE = re.compile(r"(?:/|%2F)%20|%20\.*(?:/|%2F|%3B|;|\Z)")
# A server that decodes `%2F` beside a slash would see an empty segment.
_SLASH_BESIDE_SLASH = re.compile(r"(?:/|%2F)%2F|%2F(?:/|\Z)")
_DOUBLE_ESCAPE = re.compile(r"%25[0-9A-Fa-f]{2}")
_DOTS = re.compile(r"(?:/|%2F)\.\.?(?:/|%2F|\Z)")
_UNRESERVED_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# Longer than UTF-8 allows for an ASCII character: invalid, but some servers decode it.
_OVERLONG_UTF8 = re.compile(r"%C[01]%[89AB]|%E0%[89][0-9A-F]%|%F0%8[0-9A-F]%|%F[8-D]%[89AB]")
_RESERVED_ESCAPE = re.compile(r"%(2[146789BC]|3[ABD]|40|5[BD])")
_QUERY_FORBIDDEN = re.compile(r"[\x00-\x20\x7f#\u0100-\U0010ffff]")
_QUERY_ENCODE = re.compile(r"[\x80-\xff]")


class _Spellings(dict[str, str]):
    """Escapes by how they are written; all other text is spelled as it is."""

    def __missing__(self, text: str) -> str:
        return text


def _spell(digits: str) -> str:
    character = chr(int(digits, 16))
    return character if character in _UNRESERVED_CHARS else "%" + digits.upper()


_HEX_DIGITS = "0123456789abcdefABCDEF"
_SPELLINGS = _Spellings({f"%{high}{low}": _spell(high + low) for high in _HEX_DIGITS for low in _HEX_DIGITS})


class PathError(ValueError):
    """The path has no spelling that all servers read alike; the message never quotes it."""


def canonical_path(path: str, *, strict: bool = False, encoded_slash: bool = False) -> str:
    """Return the canonical spelling of `path`; raises `PathError`.

    `strict` also refuses spellings that only path rules care about: empty segments and `;`.
    `encoded_slash` keeps `%2F` as data inside a segment.
    """
    # Most paths have nothing to rewrite: one search and they are done.
    if path.startswith("/") and not _SUSPECT_SPELLING.search(path):
        return _bounded(path)
    if not path.startswith("/"):
        raise PathError("the path does not begin with a slash")
    _bounded(path)
    if _FORBIDDEN_CHARS.search(path):
        raise PathError("the path contains a control character, a space, # or \\")
    # Unescape first, so that the checks below see characters however they were written.
    path = _respelled(path)
    path = _ENCODE.sub(_encode, path)
    _refuse_escapes(path, encoded_slash=encoded_slash)
    if ("/." in path or "%2F." in path) and _DOTS.search(path):
        raise PathError("the path has a . or .. segment")
    if strict:
        # Some servers collapse empty segments and cut at `;` or `?`: a path rule would match another path.
        if "//" in path:
            raise PathError("the path has an empty segment, and rules of this host look at paths")
        if ";" in path or "%3B" in path:
            raise PathError("the path contains a ;, and rules of this host look at paths")
        if "%3F" in path:
            raise PathError("the path contains an escaped ?, and rules of this host look at paths")
    return path


def loosened_path(path: str) -> str:
    """Return the path as a server reads it that decodes reserved characters too.

    Only denies are matched on this reading: a request must not slip past `deny: /v1/keys:rotate`
    by writing `%3A`. `%2A` stays, since `*` has a meaning in patterns, and so does `%2F`.
    """
    return _RESERVED_ESCAPE.sub(lambda match: chr(int(match[1], 16)), path) if "%" in path else path


def to_wire_text(text: str) -> str:
    """Return text a person wrote in the form it has on the wire: UTF-8, one character a byte."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("latin-1")


def split_target(target: str) -> tuple[str, str]:
    """Split an origin-form target into path and query (with its `?`, or empty)."""
    mark = target.find("?")
    return (target, "") if mark < 0 else (target[:mark], target[mark:])


def canonical_query(query: str) -> str:
    """Return the query as it is forwarded; raises `PathError`. Only bytes >= 0x80 change their spelling."""
    if len(query) > MAX_PATH_BYTES:
        raise PathError("the query is longer than 16 KiB")
    if _QUERY_FORBIDDEN.search(query):
        raise PathError("the query contains a control character, a space or #")
    return query if query.isascii() else _QUERY_ENCODE.sub(_encode, query)


def _bounded(path: str) -> str:
    if len(path) > MAX_PATH_BYTES:
        raise PathError("the path is longer than 16 KiB")
    return path


def _respelled(path: str) -> str:
    """Return the path with each escape in its canonical spelling."""
    if "%" not in path:
        return path
    if _BROKEN_ESCAPE.search(path):
        raise PathError("the path has a broken % escape")
    # By a table, since a path may have thousands of escapes: a function for each takes milliseconds.
    return "".join(map(_SPELLINGS.__getitem__, _ESCAPE_OR_TEXT.findall(path)))


def _encode(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"


def _refuse_escapes(path: str, *, encoded_slash: bool) -> None:
    if "%" not in path:
        return
    if _FORBIDDEN_ESCAPE.search(path):
        raise PathError("the path contains an escaped control character, # or \\")
    if "%20" in path and _SPACE_AT_EDGE.search(path):
        raise PathError("the path has a segment that begins or ends with a space")
    if "%25" in path and _DOUBLE_ESCAPE.search(path):
        raise PathError("the path is escaped twice")
    if _OVERLONG_UTF8.search(path):
        raise PathError("the path contains an overlong UTF-8 character")
    if "%2F" not in path:
        return
    if not encoded_slash:
        raise PathError("the path has an escaped slash, and no rule of this host has `encoded_slash: data`")
    if _SLASH_BESIDE_SLASH.search(path):
        raise PathError("the path has an escaped slash next to another slash or at its end")
    if path.count("%2F") > MAX_ESCAPED_SLASHES:
        raise PathError("the path has more than 32 escaped slashes")
