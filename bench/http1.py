"""What the HTTP/1.1 codec costs: heads in and out, and chunked bodies.

Prints numbers; judges nothing. A target is what the number should reach on two shared cores.
"""

from __future__ import annotations

from collections.abc import Callable

from bench._timing import microseconds, seconds
from egress.http1 import (
    MessageLimits,
    RequestReader,
    ResponseReader,
    encode_request_head,
    encode_response_head,
    strip_hop_by_hop,
)
from egress.http1.heads import parse_request_head, parse_response_head
from egress.http1.message_readers import ChunkedBody

Row = tuple[str, float, str, float | None]

LIMITS = MessageLimits()

REQUEST = (
    b"GET /repos/acme/widgets/issues?state=open&per_page=100 HTTP/1.1\r\n"
    b"Host: api.example.com\r\n"
    b"User-Agent: client/2.32.3 (linux; x86_64)\r\n"
    b"Accept: application/json\r\n"
    b"Accept-Encoding: gzip, deflate, br\r\n"
    b"Connection: keep-alive\r\n"
    b"X-Api-Version: 2022-11-28\r\n"
    b"Content-Type: application/json\r\n"
    b"Content-Length: 143\r\n"
    b"Authorization: Bearer placeholder-0123456789abcdef\r\n\r\n"
)
RESPONSE = (
    b"HTTP/1.1 200 OK\r\n"
    b"Server: example\r\n"
    b"Date: Mon, 01 Jan 2024 10:11:12 GMT\r\n"
    b"Content-Type: application/json; charset=utf-8\r\n"
    b"Content-Length: 5120\r\n"
    b"Cache-Control: private, max-age=60, s-maxage=60\r\n"
    b"Vary: Accept, Authorization, Cookie\r\n"
    b'ETag: "0123456789abcdef0123456789abcdef"\r\n'
    b"X-RateLimit-Remaining: 4987\r\n"
    b"Strict-Transport-Security: max-age=31536000; includeSubdomains; preload\r\n"
    b"Connection: keep-alive\r\n\r\n"
)


def run() -> list[Row]:
    """Measure every row, best of several rounds."""
    request = parse_request_head(REQUEST, LIMITS)
    headers = strip_hop_by_hop(request.headers)
    back = strip_hop_by_hop(parse_response_head(RESPONSE, LIMITS, "GET", ()).headers)
    framing = parse_request_head(REQUEST.replace(b"143", b"5120"), LIMITS).framing
    asked = microseconds(lambda: parse_request_head(REQUEST, LIMITS), 5000)
    answered = microseconds(lambda: parse_response_head(RESPONSE, LIMITS, "GET", ()), 5000)
    jobs: list[tuple[str, Callable[[], object]]] = [
        ("http1, request head through a new reader", lambda: RequestReader().feed(REQUEST)),
        ("http1, response head through a new reader", _read_response),
        ("http1, strip hop-by-hop", lambda: strip_hop_by_hop(request.headers)),
        ("http1, request head write", lambda: encode_request_head("GET", "/x", headers, request.framing)),
        ("http1, response head write", lambda: encode_response_head(200, "OK", back, framing, method="GET")),
    ]
    return [
        ("http1, request head parse", asked, "us", None),
        ("http1, response head parse", answered, "us", None),
        ("http1, both heads parse", asked + answered, "us", 12.0),
        *[(name, microseconds(job, 5000), "us", None) for name, job in jobs],
        ("http1, chunked decode, 16 KiB chunks", _rate(16 * 1024), "MB/s", None),
        ("http1, chunked decode, 1 KiB chunks", _rate(1024), "MB/s", None),
        ("http1, chunked decode, 1 byte chunks", _rate(1), "MB/s", None),
    ]


def _read_response() -> None:
    reader = ResponseReader()
    reader.expect("GET")
    reader.feed(RESPONSE)


def _rate(size: int) -> float:
    """Decode reads of 64 KiB; return megabytes of wire a second."""
    wire = (b"%x\r\n%b\r\n" % (size, b"x" * size)) * max(1, (1 << 20) // (size + 8))
    reads = [wire[at : at + 65536] for at in range(0, len(wire), 65536)]

    def decode() -> None:
        body = ChunkedBody(LIMITS, of_request=False)
        for read in reads:
            body.take(read, _drop)

    return len(wire) / seconds(decode) / 1e6


def _drop(_event: object) -> None:
    """Take an event and forget it."""


if __name__ == "__main__":
    for name, value, unit, target in run():
        print(f"{name:<44}{value:>10.2f} {unit:<5}" + (f"target {target:g}" if target else ""))
