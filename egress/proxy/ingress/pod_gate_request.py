"""`POST /gate`: the gate of a pod asks whether this proxy knows the pod by the address it asks from.

The request is small, read strictly and bounded in bytes and time. Its answer carries the number that the gate
has made up, so that a listener which answers anything with success is not taken for the proxy.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import msgspec

from egress.errors import WireError
from egress.http1 import Data, End, MessageLimits, RequestHead, RequestReader
from egress.proxy.ingress.pending_connection import IngressRefusal, PendingConnection

GATE_PATH: Final = "/gate"
NONCE_FIELD: Final = "egress-nonce"
MAX_BODY_BYTES: Final = 1024
_Word = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9-]{1,64}\Z")]


class GateQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Asks whether the connection is that of this pod."""

    uid: _Word
    nonce: _Word


def is_gate_request(head: RequestHead | None) -> bool:
    """Report whether a request on a proxy listener is the question of a gate."""
    return head is not None and (head.method, head.form, head.target) == ("POST", "origin", GATE_PATH)


async def read_gate_question(pending: PendingConnection) -> GateQuestion | IngressRefusal | None:
    """Read the question whose head was seen; None where the client leaves before its end."""
    try:
        async with asyncio.timeout(pending.bounds.head_time):
            body = await _body(pending)
    except TimeoutError:
        return IngressRefusal("request.timeout")
    except WireError as error:
        return IngressRefusal("request.malformed", status=error.status)
    if body is None:
        return None
    if len(body) > MAX_BODY_BYTES:
        return IngressRefusal("limit.request_body")
    try:
        return msgspec.json.decode(body, type=GateQuestion)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return IngressRefusal("request.malformed")


async def _body(pending: PendingConnection) -> bytes | None:
    """Return the body, or a little more than is allowed of it."""
    client, body = pending.client, bytearray()
    reader = RequestReader(MessageLimits(head=pending.bounds.head))
    data = bytes(client.kept)
    while True:
        for event in reader.feed(data):
            if isinstance(event, Data):
                body += event.data
            if isinstance(event, End) or len(body) > MAX_BODY_BYTES:
                return bytes(body)
        data = await client.read_more()
        if not data:
            return None


def gate_answer(question: GateQuestion) -> bytes:
    """Return the response that says yes."""
    return (
        f"HTTP/1.1 204 No Content\r\n{NONCE_FIELD}: {question.nonce}\r\n"
        "cache-control: no-store\r\nconnection: close\r\n\r\n"
    ).encode("ascii")
