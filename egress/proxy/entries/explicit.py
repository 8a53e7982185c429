"""A proxy listener: the client knows that it talks to a proxy, and names its destination in the request.

Two forms are served: CONNECT, and a plain HTTP request with a full URL. A request for a path, as if
this were a web server, is refused: its Host field says where it would have gone, and nobody has to be
told apart from a proxy by that. TLS to the proxy itself is not served either.
"""

from __future__ import annotations

from typing import Final

from egress.http1 import RequestHead
from egress.proxy.destination import excerpt, read_authority
from egress.proxy.identity import Guard
from egress.proxy.reading import begins_http, read_first, read_head
from egress.proxy.visit import Asked, Refused, Visit

_PLAIN: Final = "http://"


async def ask(visit: Visit, guard: Guard, now: float) -> Asked | Refused | None:
    """Read the head of a client that uses the proxy, and return where it wants to go."""
    first = await read_first(visit)
    if not isinstance(first, int):
        return first
    if not begins_http(first):
        return Refused("protocol.refused")
    head = await read_head(visit)
    if not isinstance(head, RequestHead):
        return head
    return guard.refusal(visit.listener, head, now) or read_target(head)


def read_target(head: RequestHead) -> Asked | Refused:
    """Return the destination that a head on a proxy listener names."""
    if head.method == "CONNECT":
        return _connect(head)
    if head.form == "absolute" and head.target[: len(_PLAIN)].lower() == _PLAIN:
        return _absolute(head)
    return Refused("proxy.form")


def _connect(head: RequestHead) -> Asked | Refused:
    found = read_authority(head.target)
    if found is None:
        return Refused("host.malformed", "connect", excerpt(head.target))
    asked = Asked("connect", ("https", "http"), *found)
    # Some clients leave the port out of Host here, whatever it is.
    if head.host and read_authority(head.host, asked.port) != found:
        return asked.refused("request.mismatch")
    return asked


def _absolute(head: RequestHead) -> Asked | Refused:
    found = read_authority(head.authority, 80)
    if found is None:
        return Refused("host.malformed", "absolute", excerpt(head.authority))
    asked = Asked("absolute", ("http",), *found)
    if head.host and read_authority(head.host, 80) != found:
        return asked.refused("request.mismatch")
    return asked
