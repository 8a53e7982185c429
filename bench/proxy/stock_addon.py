"""The add-on that stock mitmdump runs with: what a person would write in ten lines.

It sets the credential for one name, sends the benchmark's names to loopback (the other contestants are
told the address too), and lets events through as they come, which mitmdump would otherwise hold back.
"""

from __future__ import annotations

import os

from mitmproxy import http
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

CREDENTIAL = os.environ["BENCH_CREDENTIAL"]
INJECTED = frozenset(os.environ["BENCH_NAMES"].split())


def server_connect(data: ServerConnectionHookData) -> None:
    if data.server.address:
        data.server.address = ("127.0.0.1", data.server.address[1])


def request(flow: http.HTTPFlow) -> None:
    if flow.request.pretty_host in INJECTED:
        flow.request.headers["authorization"] = CREDENTIAL


def responseheaders(flow: http.HTTPFlow) -> None:
    if flow.response and flow.response.headers.get("content-type", "").startswith("text/event-stream"):
        flow.response.stream = True
