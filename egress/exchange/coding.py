"""Contents that a search for secrets cannot read: not asked for, and recognised when they come.

A compressed body shows nothing of a secret that it returns. Where a response is going to be
searched, the upstream is asked for plain contents, in every dialect in which a client can ask for
others. From an upstream that codes them all the same, one plain compression of the whole body is
decoded (`decode`); anything else is not passed on. What is coded without being declared cannot be
recognised; that is a stated limit.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from egress.types import Headers


class Coding(Enum):
    """How the contents of a response are coded."""

    PLAIN = "identity"
    GZIP = "gzip"
    DEFLATE = "deflate"
    BROTLI = "br"
    ZSTD = "zstd"
    UNREADABLE = ""
    """In a way that is not decoded: stacked, unknown, of single messages, or of the characters."""


ASKING = frozenset(
    {
        "accept-encoding",
        "grpc-accept-encoding",
        "connect-accept-encoding",
        "accept-charset",
        "a-im",  # differences against an older version, and compression by another name
        "sec-websocket-extensions",  # permessage-deflate
    }
)
_PLAIN_WANTED = ("accept-encoding", "identity")
_TELLING = frozenset(
    {"content-encoding", "grpc-encoding", "connect-content-encoding", "im", "sec-websocket-extensions"}
)
_PLAIN = frozenset({"", "identity"})
_DECODABLE: Final = {
    "gzip": Coding.GZIP,
    "x-gzip": Coding.GZIP,
    "deflate": Coding.DEFLATE,
    "br": Coding.BROTLI,
    "zstd": Coding.ZSTD,
}
_USUAL_TYPE = re.compile(r"[a-z0-9.+-]++/[a-z0-9.+-]++(?:; ?charset=utf-8)?+", re.IGNORECASE)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]*)", re.IGNORECASE)
_READABLE = frozenset(
    {"", "utf-8", "utf8", "us-ascii", "ascii", "big5", "gb2312", "gbk", "shift_jis", "euc-jp", "euc-kr"}
)
_FAMILY = re.compile(r"(?:iso-8859-|iso8859-|latin-?|windows-125|cp125|koi8-)[0-9a-z]{1,2}", re.IGNORECASE)


def asking_for_plain(headers: Headers) -> Headers:
    """The fields with a request for plain contents."""
    return (*[field for field in headers if field[0] not in ASKING], _PLAIN_WANTED)


def coding_of(headers: Headers) -> Coding:
    """What a response says of how its contents, messages or frames are coded."""
    codings: list[tuple[str, str]] = []
    for name, value in headers:
        if name == "content-type":
            if not _is_readable(value):
                return Coding.UNREADABLE
        elif name in _TELLING:
            codings.append((name, value.strip(" \t").lower()))
    coded = [each for each in codings if each[1] not in _PLAIN]
    if not coded:
        return Coding.PLAIN
    of_body = [coding for name, coding in codings if name == "content-encoding"]
    # Two fields are a list, even where one of them says nothing.
    if len(coded) > 1 or len(of_body) != 1 or coded[0][0] != "content-encoding":
        return Coding.UNREADABLE
    return _DECODABLE.get(of_body[0], Coding.UNREADABLE)


def _is_readable(content_type: str) -> bool:
    """Whether its charset, if it names one, writes ASCII as ASCII: a secret is searched for as such."""
    if _USUAL_TYPE.fullmatch(content_type) is not None:
        return True
    charsets = _CHARSET.findall(content_type)
    return all(charset.lower() in _READABLE or _FAMILY.fullmatch(charset) for charset in charsets)
