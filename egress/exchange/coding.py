"""Contents that a search for secrets cannot read: not asked for, and recognised when they come.

A compressed body shows nothing of a secret that it returns. Where a response is going to be
searched, the upstream is asked for plain contents, in every dialect in which a client can ask for
others; an upstream that codes them all the same is not passed on. What is coded without being
declared cannot be recognised; that is a stated limit.
"""

from __future__ import annotations

from egress.types import Head, Headers

ASKING = frozenset(
    {
        "accept-encoding",
        "grpc-accept-encoding",
        "connect-accept-encoding",
        "a-im",  # differences against an older version, and compression by another name
        "sec-websocket-extensions",  # permessage-deflate
    }
)
_TELLING = frozenset(
    {"content-encoding", "grpc-encoding", "connect-content-encoding", "im", "sec-websocket-extensions"}
)
_PLAIN = frozenset({"", "identity"})


def asking_for_plain(head: Head) -> Head:
    """The head with a request for plain contents; it keeps its class, and with that its secrecy."""
    kept = [field for field in head.headers if field[0] not in ASKING]
    headers = (*kept, ("accept-encoding", "identity"))
    return type(head)(head.method, head.scheme, head.host, head.port, head.target, headers, head.websocket)


def is_coded(headers: Headers) -> bool:
    """Whether a response says that its contents, messages or frames are coded."""
    return any(name in _TELLING and value.strip(" \t").lower() not in _PLAIN for name, value in headers)
