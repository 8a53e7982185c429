"""A transparent listener: the client believes that it talks to the host itself, by TLS or plain HTTP.

SNI or Host name the destination; the port is the one the client dialled. Whoever names no host cannot
be told where it wanted to go, and is refused.
"""

from __future__ import annotations

from egress.http1 import RequestHead
from egress.proxy.clienthello import ClientHello, looks_like_tls
from egress.proxy.destination import excerpt, read_authority
from egress.proxy.reading import begins_http, read_first, read_head, read_hello
from egress.proxy.visit import Asked, Refused, Visit


async def ask(visit: Visit) -> Asked | Refused | None:
    """Look at the first message of a client, and return where it wants to go."""
    first = await read_first(visit)
    if not isinstance(first, int):
        return first
    if looks_like_tls(first):
        return _by_sni(await read_hello(visit), visit.listener.port)
    if begins_http(first):
        return _by_host(await read_head(visit), visit.listener.port)
    return Refused("protocol.refused")


def _by_sni(hello: ClientHello | Refused | None, port: int) -> Asked | Refused | None:
    if not isinstance(hello, ClientHello):
        return hello
    if not hello.sni:
        return Refused("host.malformed", "sni", port=port)
    return Asked("sni", ("https",), hello.sni, port, hello)


def _by_host(head: RequestHead | Refused | None, port: int) -> Asked | Refused | None:
    if not isinstance(head, RequestHead):
        return head
    if head.form not in ("origin", "asterisk"):
        # A full URL names a second host beside Host, and CONNECT is for proxies.
        return Refused("request.malformed", "host")
    found = read_authority(head.host, 80)
    if found is None:
        return Refused("host.malformed", "host", excerpt(head.host), port)
    asked = Asked("host", ("http",), found[0], port)
    return asked if found[1] == port else asked.refused("request.mismatch")
