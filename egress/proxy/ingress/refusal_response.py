"""How a refused client is told: a page, a TLS alert, or nothing.

Constant text and constant bytes: nothing the client sent is in them. Where it is not known what the
client speaks, nothing is written at all.
"""

from __future__ import annotations

from typing import Final

from egress.http1 import NO_BODY, Framing, RequestHead, encode_response_head
from egress.proxy.ingress.pending_connection import IngressRefusal, PendingConnection
from egress.relay.error_page import error_page

_ACCESS_DENIED_ALERT: Final = bytes.fromhex("15030300020231")
_UNRECOGNIZED_NAME_ALERT: Final = bytes.fromhex("15030300020270")
"""Fatal alerts in a record of TLS 1.2, which every version reads."""

_NAME_CODES: Final = frozenset({"host.malformed", "host.unknown", "request.mismatch"})


async def send_refusal(pending: PendingConnection, refused: IngressRefusal) -> None:
    """Tell the client, let it read that for a moment, and close."""
    data = refusal_bytes(pending, refused)
    bounds, client = pending.bounds, pending.client
    if data and await client.send(data, bounds.linger_time):
        await client.linger(bounds.linger, bounds.linger_time)
    await client.close(bounds.linger_time)


def refusal_bytes(pending: PendingConnection, refused: IngressRefusal) -> bytes:
    """Return the bytes that tell this client; none where nothing would be understood."""
    match pending.speaks:
        case "http":
            return refusal_page(refused, pending.id, pending.head)
        case "tls":
            return _UNRECOGNIZED_NAME_ALERT if refused.code in _NAME_CODES else _ACCESS_DENIED_ALERT
        case _:
            return b""


def refusal_page(refused: IngressRefusal, request: str, head: RequestHead | None = None) -> bytes:
    """Return a whole response that says why, in the words that fit the client of `head`."""
    fields = dict(head.headers) if head else {}
    rule = refused.decision.rule if refused.decision else None
    made = error_page(
        refused.code,
        request,
        accept=fields.get("accept", ""),
        user_agent=fields.get("user-agent", ""),
        status=refused.status,
        retry_after=refused.retry_after,
        denied_because=rule.reason if rule else "",
    )
    method = head.method if head else "GET"
    body = b"" if method == "HEAD" else made.body
    framing = Framing.sized(len(body)) if body else NO_BODY
    start = encode_response_head(made.status, made.reason, made.headers, framing, method=method, close=True)
    return start + body
