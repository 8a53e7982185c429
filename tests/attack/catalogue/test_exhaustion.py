"""What one sandbox can use up: memory, connections, turns; told by the kernel and by a neighbour that asks.

Each attack is on while the neighbour is served. Nothing is timed: it is answered, or it is not.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import gzip
import hashlib
import struct
import threading
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import brotli  # type: ignore[import-untyped]  # compiled, and without stubs
import pytest
import zstandard
from h2.settings import SettingCodes

from tests.attack.lab.boxes import boxes
from tests.attack.lab.cases import case
from tests.attack.lab.client import Line, request
from tests.attack.lab.harm import Finding, Harm
from tests.attack.lab.http2 import Http2, head
from tests.attack.lab.lab import Lab
from tests.attack.lab.memory import MOST, Memory
from tests.attack.lab.names import ANY, API, HTTP2, OTHER, PLAIN, SCOPED, SOCKETS
from tests.attack.lab.proxies import Egress, Naive, Proxy
from tests.attack.lab.websocket import BINARY, PING, TEXT, ask_for_websocket, frame
from tests.proxy.lab.visit import Visit
from tests.proxy.served import until

pytestmark = pytest.mark.system("ip", "iproute2")

MIB: Final = 1 << 20
PROMPTS: Final = f"prompts.{ANY}"
"""Takes 64 KiB in a request."""
STARS: Final = f"stars.{ANY}"
"""Its one rule has a pattern that makes some matchers work for ever."""
PATTERN: Final = "/" + "*a" * 12 + "b"


def rules(lab: Lab) -> str:
    return lab.rules() + (
        f"  {PROMPTS}: {{allow: all, limits: {{request_body: 64 KiB}}, inject: [{{bearer: shapes}}]}}\n"
        f"  {STARS}: {{allow: [{{id: stars, paths: ['{PATTERN}']}}]}}\n"
    )


@pytest.fixture(scope="module")
def egress(lab: Lab) -> Iterator[Egress]:
    """One with the usual bounds, and room for a neighbour."""
    with lab.egress(rules(lab), "--handover") as proxy:
        yield proxy
        found = lab.at_the_end(proxy)
    assert not found, "after its case: " + "; ".join(map(str, found))


Attack = Callable[[Lab, Proxy], object]


def bear(lab: Lab, proxy: Proxy, attacks: Mapping[str, Attack]) -> None:
    """Hold a proxy to its bounds under each attack of one sandbox, while another one is served."""
    with boxes(lab, proxy, "greedy") as (greedy,), ThreadPoolExecutor(1) as beside:
        _warm_up(proxy, greedy)
        for what, attack in attacks.items():
            with Memory(proxy) as memory:
                under_way = beside.submit(attack, lab, greedy)
                served = _is_served(proxy)
                under_way.result()
                served = served and _is_served(proxy)
                growth = memory.growth
            for line in proxy.lines:
                line.close()
            if not served or growth > MOST:
                raise Finding(Harm.STARVED, f"{what}: {growth} MiB, and the neighbour is {'' if served else 'not '}served")
            assert proxy.status() is None, f"{what} has ended the proxy"


def _warm_up(*proxies: Proxy) -> None:
    """What the first of everything costs, it costs once."""
    for proxy in proxies:
        for host in (API, OTHER, SCOPED):
            proxy.ask(host, request(host, "/echo"))


def _is_served(proxy: Proxy) -> bool:
    return proxy.ask(API, request(API, "/small")).status == 200


# From clients -----------------------------------------------------------------------------------


def _pour(line: Line, data: bytes, times: int) -> Line:
    """Send it again and again, as long as it is taken."""
    line._sock.settimeout(2)
    for _ in range(times):
        try:
            line._sock.sendall(data)
        except OSError:
            break
    return line


def _end(line: Line, *codes: int) -> None:
    """Read what is left; Egress says one of these, or hangs up."""
    line._sock.settimeout(10)
    answer = line.response()
    assert answer.status in (0, *codes), answer
    line.close()


FIELDS: Final = b"".join(b"x-%d: %s\r\n" % (number, b"y" * 65536) for number in range(16))


def _in_clear(start: bytes) -> Attack:
    return lambda _, proxy: _end(_pour(proxy.dial().send(start), FIELDS, 64), 400, 408, 431)


def _inside(start: bytes, data: bytes = FIELDS, times: int = 64, host: str = API) -> Attack:
    return lambda _, proxy: _end(_pour(proxy.tunnel(host).send(start), data, times), 400, 403, 413, 431)


POST: Final = b"POST /sink HTTP/1.1\r\nhost: %s\r\n" % API.encode()
CHUNKED: Final = POST + b"transfer-encoding: chunked\r\n\r\n"

HEADS: Final[Mapping[str, Attack]] = {
    "64 MiB of a request": _in_clear(f"GET http://{PLAIN}/ HTTP/1.1\r\n".encode()),
    "64 MiB of a CONNECT": _in_clear(f"CONNECT {API}:443 HTTP/1.1\r\n".encode()),
    "64 MiB of a target": lambda _, proxy: _end(_pour(proxy.dial().send(b"GET /"), b"x" * MIB, 64), 400, 414, 431),
    "64 MiB of nothing": lambda _, proxy: _end(_pour(proxy.dial(), b"\r\n" * (MIB // 2), 64), 400, 431),
    "64 MiB of a head inside": _inside(b"GET / HTTP/1.1\r\n"),
    "64 MiB of one field": _inside(b"GET / HTTP/1.1\r\nx: ", b"y" * MIB),
    "64 MiB of a chunk's size": _inside(CHUNKED, b"0" * MIB),
    "64 MiB of a chunk's extension": _inside(CHUNKED + b"1;", b"x" * MIB),
    "64 MiB of extensions": _inside(CHUNKED, (b"1;" + b"x" * 200 + b"\r\ny\r\n") * 5000),
    "64 MiB of trailers": _inside(CHUNKED + b"0\r\n"),
}


@case("S-66", "heads without an end", Harm.STARVED)
def test_heads_without_an_end(lab: Lab, proxy: Proxy) -> None:
    bear(lab, proxy, HEADS)


async def _never_reads(visit: Visit) -> None:
    """Neither the body, nor anything else."""
    visit.over = True
    await asyncio.Event().wait()


def _upload(host: str, target: str, size: int) -> Attack:
    start = f"POST {target} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {1 << 30}\r\n\r\n".encode()
    return lambda _, proxy: _pour(proxy.tunnel(host).send(start), b"y" * MIB, size).close()


def _upload_in_http2(_: Lab, proxy: Proxy) -> None:
    """As much as the windows allow, and 100 MiB where they allow all."""
    with proxy.tunnel(HTTP2, alpn=("h2",)) as line:
        http2 = Http2(line)
        stream = http2.start(*head(HTTP2, "/never-reads", method="POST"), end=False)
        http2.until(lambda: http2.h2.local_flow_control_window(stream.id) > 0)
        line._sock.settimeout(0.5)
        for _ in range(100 * MIB // 16384):
            room = http2.h2.local_flow_control_window(stream.id)
            if room < 16384 and not http2.until(lambda: http2.h2.local_flow_control_window(stream.id) >= 16384):
                break
            http2.data(stream, b"y" * 16384)


BODIES: Final[Mapping[str, Attack]] = {
    "an upload that nobody reads": _upload(API, "/never-reads", 100),
    "an upload that is refused": _upload(SCOPED, "/somewhere", 300),
    "an upload of single bytes": _inside(CHUNKED, b"1\r\ny\r\n" * 20_000, 10),
    "an upload in HTTP/2 that nobody reads": _upload_in_http2,
    "requests all at once": lambda _, proxy: _pour(proxy.tunnel(API), request(API, "/nowhere") * 1000, 20).close(),
}


@case("S-66", "bodies that nobody reads", Harm.STARVED)
def test_bodies_that_nobody_reads(lab: Lab, proxy: Proxy) -> None:
    lab.api.handle("/never-reads", _never_reads)
    bear(lab, proxy, BODIES)
