"""Files on an upstream, by their path: what every stand-in for a package index is made of."""

from __future__ import annotations

from collections.abc import Mapping

from tests.proxy.lab.handlers import Handler
from tests.proxy.lab.http2 import Call, Http2Upstream
from tests.proxy.lab.http2 import Handler as Http2Handler
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.proxy.lab.upstream_request import UpstreamRequest

Files = Mapping[str, bytes]
"""The content of each file by its path, which begins with a slash."""

CREDENTIAL = "@credential@"
"""Where this stands in a file, the credential that came is handed out."""


def shelve(upstream: RawUpstream | Http2Upstream, files: Files) -> None:
    """Answer a request for a path with the file; the head of each answer shows the credential that came."""
    for path, content in files.items():
        if isinstance(upstream, RawUpstream):
            upstream.handle(path, _over_http1(content))
        else:
            upstream.handle(path, _over_http2(content))


def _over_http1(content: bytes) -> Handler:
    async def give(visit: UpstreamRequest) -> None:
        await visit.body()
        echo = (("x-echo", visit.authorization),)
        await visit.answer(_filled(content, visit.authorization), echo, kind="application/octet-stream")

    return give


def _over_http2(content: bytes) -> Http2Handler:
    async def give(call: Call) -> None:
        filled = _filled(content, call.authorization)
        await call.begin(200, ("content-length", str(len(filled))), ("x-echo", call.authorization))
        await call.say(filled, end=True)

    return give


def _filled(content: bytes, credential: str) -> bytes:
    return content.replace(CREDENTIAL.encode(), credential.encode())
