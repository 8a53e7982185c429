"""The requested destination: `host:port` as a client writes it becomes a canonical pair, or is refused.

Host names get the canonical spelling that rules are compared with; addresses must come in their canonical
spelling; ports are plain decimal numbers. Other spellings are refused and never repaired: the next program
in the chain might repair them differently.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from egress.exchange import Destination
from egress.http1 import RequestHead
from egress.proxy.ingress.first_message import begins_http, read_first, read_head, read_hello
from egress.proxy.ingress.peer_authentication import PasswordGuard
from egress.proxy.ingress.pending_connection import IngressRefusal, PendingConnection, RequestedDestination
from egress.rules.language.hosts import HostError, canonical_wire_host, is_address
from egress.run_ticket import mask_tickets
from egress.tls.client_hello import ClientHello, looks_like_tls

_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_MAX_EXCERPT_CHARS: Final = 120


def read_authority(text: str, default_port: int = 0) -> tuple[str, int] | None:
    """Read `host`, `host:port`, `1.2.3.4:port` or `[v6]:port`; None for what is none of them.

    Without a port the default is taken; where that is 0 the port must stand there.
    """
    if text.startswith("["):
        inner, bracket, rest = text[1:].partition("]")
        if not bracket or ":" not in inner or not is_address(inner):
            return None
        host: str | None = inner
    else:
        name, colon, port_text = text.partition(":")
        host, rest = _read_name(name), colon + port_text
    port = _read_port(rest, default_port)
    return (host, port) if host and port else None


def _read_name(text: str) -> str | None:
    if ":" not in text and is_address(text):
        return text
    try:
        return canonical_wire_host(text)
    except HostError:
        return None


def _read_port(text: str, default: int) -> int:
    """The port behind its colon, or the default where nothing stands there; 0 for what is no port."""
    if not text:
        return default
    if text[0] != ":" or _PORT.fullmatch(text, 1) is None:
        return 0
    port = int(text[1:])
    return port if port <= 65535 else 0


def excerpt(text: str) -> str:
    """The start of a text from the wire, safe to be shown: plain ASCII without control characters."""
    # Masked first: a ticket that is cut short would still be the beginning of one.
    shown = "".join(
        letter if " " <= letter <= "~" else f"\\x{ord(letter):02x}"
        for letter in mask_tickets(text)[:_MAX_EXCERPT_CHARS]
    )
    return shown[:_MAX_EXCERPT_CHARS] + ("..." if len(text) > _MAX_EXCERPT_CHARS else "")


# A proxy listener: the client knows that it talks to a proxy, and names its destination in the request.
#
# Two forms are served: CONNECT, and a plain HTTP request with a full URL. A request for a path, as if
# this were a web server, is refused: its Host field says where it would have gone, and nobody has to be
# told apart from a proxy by that. TLS to the proxy itself is not served either.
_HTTP_PREFIX: Final = "http://"


async def read_proxy_request(
    pending: PendingConnection, guard: PasswordGuard, now: float
) -> RequestedDestination | IngressRefusal | None:
    """Read the head of a client that uses the proxy, and return where it wants to go."""
    first = await read_first(pending)
    if not isinstance(first, int):
        return first
    if not begins_http(first):
        return IngressRefusal("protocol.refused")
    head = await read_head(pending)
    if not isinstance(head, RequestHead):
        return head
    return guard.refusal(pending.listener, head, now) or read_target(head)


def read_target(head: RequestHead) -> RequestedDestination | IngressRefusal:
    """Return the destination that a head on a proxy listener names."""
    if head.method == "CONNECT":
        return _connect_destination(head)
    if head.form == "absolute" and head.target[: len(_HTTP_PREFIX)].lower() == _HTTP_PREFIX:
        return _absolute_destination(head)
    return IngressRefusal("proxy.form")


def _connect_destination(head: RequestHead) -> RequestedDestination | IngressRefusal:
    found = read_authority(head.target)
    if found is None:
        return IngressRefusal("host.malformed", "connect", excerpt(head.target))
    asked = RequestedDestination("connect", ("https", "http"), *found)
    # Some clients leave the port out of Host here, whatever it is.
    if head.host and read_authority(head.host, asked.port) != found:
        return asked.refused("request.mismatch")
    return asked


def _absolute_destination(head: RequestHead) -> RequestedDestination | IngressRefusal:
    found = read_authority(head.authority, 80)
    if found is None:
        return IngressRefusal("host.malformed", "absolute", excerpt(head.authority))
    asked = RequestedDestination("absolute", ("http",), *found)
    if head.host and read_authority(head.host, 80) != found:
        return asked.refused("request.mismatch")
    return asked


# Inside a CONNECT the first message must fit the requested destination: a ClientHello that names the host or
# none, or for plain HTTP a request whose Host is the destination. Any other message ends the connection
# before a byte is relayed or an address dialled.
@dataclass(frozen=True, slots=True)
class TunnelStart:
    """The tunnel carries what it was opened for."""

    hello: ClientHello | None = None


async def read_tunnel_start(
    pending: PendingConnection, destination: Destination
) -> TunnelStart | IngressRefusal | None:
    """Look at the first message inside a tunnel to `destination`; it stays with the client."""
    pending.speaks, pending.head = "", None
    first = await read_first(pending)
    if not isinstance(first, int):
        return first
    if destination.scheme == "https" and looks_like_tls(first):
        return _check_hello(await read_hello(pending), destination)
    if destination.scheme == "http" and begins_http(first):
        return _check_head(await read_head(pending), destination)
    return IngressRefusal("protocol.refused")


async def read_denied_start(pending: PendingConnection) -> ClientHello | None:
    """Read the hello of a client whose tunnel leads nowhere; None for any other message, or none.

    A message of plain HTTP is read as well, so that the refusal becomes a page.
    """
    pending.speaks, pending.head = "", None
    # A client that waits for its server to speak first waits in vain, and is not kept for long.
    first = await read_first(pending, pending.bounds.hello_time)
    if isinstance(first, int) and looks_like_tls(first):
        hello = await read_hello(pending)
        return hello if isinstance(hello, ClientHello) else None
    if isinstance(first, int) and begins_http(first):
        await read_head(pending)
    return None


def _check_hello(
    hello: ClientHello | IngressRefusal | None, destination: Destination
) -> TunnelStart | IngressRefusal | None:
    if not isinstance(hello, ClientHello):
        return hello
    if hello.sni and hello.sni != destination.host:
        return IngressRefusal("request.mismatch", sni=hello.sni)
    return TunnelStart(hello)


def _check_head(
    head: RequestHead | IngressRefusal | None, destination: Destination
) -> TunnelStart | IngressRefusal | None:
    if not isinstance(head, RequestHead):
        return head
    if head.form not in ("origin", "asterisk"):
        return IngressRefusal("request.malformed")
    if read_authority(head.host, 80) != (destination.host, destination.port):
        return IngressRefusal("request.mismatch")
    return TunnelStart()


# A transparent listener: the client believes that it talks to the host itself, by TLS or plain HTTP.
#
# SNI or Host name the destination; the port is the one the client dialled. Whoever names no host cannot
# be told where it wanted to go, and is refused.
async def read_transparent_start(pending: PendingConnection) -> RequestedDestination | IngressRefusal | None:
    """Look at the first message of a client, and return where it wants to go."""
    first = await read_first(pending)
    if not isinstance(first, int):
        return first
    if looks_like_tls(first):
        return _sni_destination(await read_hello(pending), pending.listener.port)
    if begins_http(first):
        return _host_destination(await read_head(pending), pending.listener.port)
    return IngressRefusal("protocol.refused")


def _sni_destination(
    hello: ClientHello | IngressRefusal | None, port: int
) -> RequestedDestination | IngressRefusal | None:
    if not isinstance(hello, ClientHello):
        return hello
    if not hello.sni:
        return IngressRefusal("host.malformed", "sni", port=port)
    return RequestedDestination("sni", ("https",), hello.sni, port, hello)


def _host_destination(
    head: RequestHead | IngressRefusal | None, port: int
) -> RequestedDestination | IngressRefusal | None:
    if not isinstance(head, RequestHead):
        return head
    if head.form not in ("origin", "asterisk"):
        # A full URL names a second host beside Host, and CONNECT is for proxies.
        return IngressRefusal("request.malformed", "host")
    found = read_authority(head.host, 80)
    if found is None:
        return IngressRefusal("host.malformed", "host", excerpt(head.host), port)
    asked = RequestedDestination("host", ("http",), found[0], port)
    return asked if found[1] == port else asked.refused("request.mismatch")
