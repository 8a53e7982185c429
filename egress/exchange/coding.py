"""Contents that a search for secrets cannot read: not asked for, and recognised when they come.

A compressed body shows nothing of a secret that it returns. Where a response is going to be
searched, the upstream is asked for plain contents, in every dialect in which a client can ask for
others; an upstream that codes them all the same is not passed on. What is coded without being
declared cannot be recognised; that is a stated limit.
"""

from __future__ import annotations

import re

from egress.types import Head, Headers

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
_TELLING = frozenset(
    {"content-encoding", "grpc-encoding", "connect-content-encoding", "im", "sec-websocket-extensions"}
)
_PLAIN = frozenset({"", "identity"})
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]*)", re.IGNORECASE)
_READABLE = frozenset(
    {"", "utf-8", "utf8", "us-ascii", "ascii", "big5", "gb2312", "gbk", "shift_jis", "euc-jp", "euc-kr"}
)
_FAMILY = re.compile(r"(?:iso-8859-|iso8859-|latin-?|windows-125|cp125|koi8-)[0-9a-z]{1,2}", re.IGNORECASE)


def asking_for_plain(head: Head) -> Head:
    """The head with a request for plain contents; it keeps its class, and with that its secrecy."""
    kept = [field for field in head.headers if field[0] not in ASKING]
    headers = (*kept, ("accept-encoding", "identity"))
    return type(head)(head.method, head.scheme, head.host, head.port, head.target, headers, head.websocket)


def is_coded(headers: Headers) -> bool:
    """Whether a response says that its contents, messages or frames are coded."""
    return any(
        (name in _TELLING and value.strip(" \t").lower() not in _PLAIN)
        or (name == "content-type" and not _is_readable(value))
        for name, value in headers
    )


def _is_readable(content_type: str) -> bool:
    """Whether its charset, if it names one, writes ASCII as ASCII: a secret is searched for as such."""
    charsets = _CHARSET.findall(content_type)
    return all(charset.lower() in _READABLE or _FAMILY.fullmatch(charset) for charset in charsets)
