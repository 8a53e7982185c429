"""How a refused client is told: a page, a TLS alert, or nothing.

Constant text and constant bytes: nothing the client sent is in them. Where it is not known what the
client speaks, nothing is written at all.
"""

from __future__ import annotations

from typing import Final

from egress.http1 import NO_BODY, Framing, RequestHead, encode_response_head
from egress.proxy.visit import Refused, Visit
from egress.relay.page import page

_ACCESS_DENIED: Final = bytes.fromhex("15030300020231")
_UNRECOGNIZED_NAME: Final = bytes.fromhex("15030300020270")
"""Fatal alerts in a record of TLS 1.2, which every version reads."""

_ABOUT_THE_NAME: Final = frozenset({"host.malformed", "host.unknown", "request.mismatch"})


async def answer(visit: Visit, refused: Refused) -> None:
    """Tell the client, let it read that for a moment, and close."""
    data = words(visit, refused)
    bounds, client = visit.bounds, visit.client
    if data and await client.send(data, bounds.linger_time):
        await client.linger(bounds.linger, bounds.linger_time)
    await client.close(bounds.linger_time)


def words(visit: Visit, refused: Refused) -> bytes:
    """Return the bytes that tell this client; none where nothing would be understood."""
    match visit.speaks:
        case "http":
            return page_for(refused, visit.id, visit.head)
        case "tls":
            return _UNRECOGNIZED_NAME if refused.code in _ABOUT_THE_NAME else _ACCESS_DENIED
        case _:
            return b""


def page_for(refused: Refused, request: str, head: RequestHead | None = None) -> bytes:
    """Return a whole response that says why, in the words that fit the client of `head`."""
    fields = dict(head.headers) if head else {}
    made = page(
        refused.code,
        request,
        accept=fields.get("accept", ""),
        user_agent=fields.get("user-agent", ""),
        status=refused.status,
        retry_after=refused.retry_after,
    )
    method = head.method if head else "GET"
    body = b"" if method == "HEAD" else made.body
    framing = Framing.sized(len(body)) if body else NO_BODY
    start = encode_response_head(made.status, made.reason, made.headers, framing, method=method, close=True)
    return start + body
