"""The question of a gate to its gateway, whether the connection that it asks from is that of its pod.

Only the gateway that knows the pod says yes, and says it with the number that was made up for the question.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import Final

from egress.errors import CODES, WireError
from egress.http1 import ResponseHead, ResponseReader

_MAX_ANSWER_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 16 * 1024
_KNOWN: Final = 204
_NO_PODS_CODE: Final = "proxy.form"


async def ask_gateway(host: str, port: int, uid: str, seconds: float) -> str:
    """Ask; return why the gateway does not know the pod, or nothing if it does."""
    at = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    nonce = secrets.token_hex(16)
    try:
        async with asyncio.timeout(seconds):
            head = await _post(host, port, at, json.dumps({"uid": uid, "nonce": nonce}).encode("ascii"))
    except TimeoutError:
        return f"the gateway does not answer at {at}"
    except OSError:
        return f"the gateway cannot be reached at {at}"
    except WireError:
        head = None
    return _fault(head, nonce, at)


async def _post(host: str, port: int, at: str, body: bytes) -> ResponseHead | None:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(
            f"POST /gate HTTP/1.1\r\nHost: {at}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode("ascii")
            + body
        )
        response, count = ResponseReader(), 0
        response.expect("POST")
        while (data := await reader.read(_READ_BYTES)) and count < _MAX_ANSWER_BYTES:
            count += len(data)
            for event in response.feed(data):
                if isinstance(event, ResponseHead) and event.status >= 200:
                    return event
        return None
    finally:
        writer.transport.abort()


def _fault(head: ResponseHead | None, nonce: str, at: str) -> str:
    fields = dict(head.headers) if head else {}
    code = fields.get("egress-denied", "")
    if head is not None and head.status == _KNOWN and fields.get("egress-nonce") == nonce:
        return ""
    if code == _NO_PODS_CODE:
        return f"the proxy at {at} does not know pods: start it with --kubernetes"
    if code in CODES:
        return f"the gateway at {at} says {code}: {CODES[code].message}"
    return f"what answers at {at} is no gateway of Egress"
