"""A store of objects that checks the signature of every request the way S3 does (SigV4).

The signature covers method, path, query and the headers that it names, so one that still fits proves that a
proxy has changed none of them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from urllib.parse import parse_qsl, quote

from tests.proxy.lab.http1 import Request
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.lab.upstream_request import UpstreamRequest

KEY_ID = "AKIDEXAMPLE"
KEY = "made-up-key-of-the-client"
REGION = "lab-1"

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(\w+)/(\d{8})/([\w-]+)/s3/aws4_request,"
    r" SignedHeaders=([\w;-]+), Signature=([0-9a-f]{64})"
)


def serve_objects(upstream: RawUpstream, path: str, content: bytes) -> None:
    """Offer one object, and take another one in its place."""

    async def object_(visit: UpstreamRequest) -> None:
        await visit.body()
        if not is_signed(visit.request):
            await visit.answer(b"<Error><Code>SignatureDoesNotMatch</Code></Error>", status="403 Forbidden")
        elif visit.request.method == "GET":
            await visit.answer(content, kind="application/octet-stream")
        else:
            await visit.answer(b"", (("etag", '"made-up"'),))

    upstream.handle(path, object_)


def is_signed(request: Request) -> bool:
    """Whether the one signature of a request fits what arrived."""
    (given,) = request.headers("authorization") or [""]
    match = _AUTHORIZATION.fullmatch(given)
    if match is None or match[1] != KEY_ID:
        return False
    _, day, region, names, signature = match.groups()
    scope = f"{day}/{region}/s3/aws4_request"
    hashed = hashlib.sha256(_canonical(request, names).encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{request.header('x-amz-date')}\n{scope}\n{hashed}"
    key = f"AWS4{KEY}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.compare_digest(key.hex(), signature)


def _canonical(request: Request, names: str) -> str:
    """The request in the one spelling that both sides sign."""
    path, _, query = request.target.partition("?")
    pairs = sorted(
        (quote(key, "~"), quote(value, "~")) for key, value in parse_qsl(query, keep_blank_values=True)
    )
    fields = "".join(f"{name}:{','.join(request.headers(name)).strip()}\n" for name in names.split(";"))
    asked = "&".join(f"{key}={value}" for key, value in pairs)
    return "\n".join(
        [request.method, path, asked, fields, names, request.header("x-amz-content-sha256") or ""]
    )
