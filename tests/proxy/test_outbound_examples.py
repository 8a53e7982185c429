"""Handlers by host, a catch-all, named ones with parameters chosen at run time, hosts that are dictionaries.

These are the uses for which the Sandbox SDK of Cloudflare documents `outboundByHost`, `outbound`,
`outboundHandlers` and the methods that choose among them, each as Python in a whole proxy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from egress.handlers.opening import open_handlers
from egress.proxy.control.handler_choices import HandlerChoices
from tests.proxy.lab.certificates import Certificates
from tests.proxy.lab.client import dial
from tests.proxy.lab.http1 import Response
from tests.proxy.lab.proxy_stack import NAME, OTHER, SANDBOX, ProxyStack
from tests.proxy.lab.raw_upstream import RawUpstream

CERTS = Certificates()
FORMS = pytest.mark.parametrize("in_process", [True, False], ids=["in process", "own process"])
pytestmark = pytest.mark.timeout(120, method="thread")

MODULE = '''
import json
from egress.handlers import Allow, Answer, Context, Deny, Request, handler

COLOURS = {"/colour": "blue"}

async def kv(request, context):
    """A host that is a dictionary: read by GET, by its path."""
    if request.method != "GET":
        return Answer(405, "read only")
    value = COLOURS.get(request.path)
    return Answer(404) if value is None else Answer(200, value)

async def api(request, context):
    """Add what only the sandbox's owner knows."""
    return Allow(set_headers={"x-sandbox": context.sandbox})

async def questions_only(request, context):
    """The catch-all: whatever has no handler of its own may be read, not written."""
    return Allow() if request.method in ("GET", "HEAD") else Answer(405, "not here")

@handler
async def block(request, context):
    return Deny("blocked for now")

@handler
async def allow_paths(request, context):
    """A named handler with parameters."""
    return Allow() if request.path in context.params["paths"] else Deny("another path")

@handler
async def breaks(request, context):
    raise RuntimeError

outbound_by_host = {"my.kv": kv, "api.example.test": api}
outbound = questions_only
outbound_handlers = {"hello": kv}
'''
RULES = """
version: 1
hosts:
  {name}:
    ports: [{port}]
    http: [{port}]
    addresses: [127.0.0.1/32]
    allow: all
    deny: [{{id: secret, paths: ["/secret"]}}]
  {other}: {{ports: [], http: [{port}], addresses: [127.0.0.1/32]}}
  my.kv: {{virtual: true}}
"""


@asynccontextmanager
async def opened(folder: Path, *, in_process: bool) -> AsyncIterator[tuple[ProxyStack, RawUpstream]]:
    path = folder / "handlers.py"
    path.write_text(MODULE)
    caller = await open_handlers(path, in_process=in_process)
    try:
        async with RawUpstream() as upstream:
            rules = RULES.format(name=NAME, other=OTHER, port=upstream.port)
            async with ProxyStack(folder, CERTS, rules, handlers=caller) as stack:
                yield stack, upstream
    finally:
        await caller.close()


async def asked(
    stack: ProxyStack, host: str, path: str = "/", method: str = "GET", port: int = 80
) -> Response:
    place = host if port == 80 else f"{host}:{port}"
    length = "" if method == "GET" else "content-length: 0\r\n"
    request = f"{method} http://{place}{path} HTTP/1.1\r\nhost: {place}\r\n{length}\r\n"
    async with await dial(stack.proxy) as peer:
        return await peer.request(request.encode())


@FORMS
async def test_by_host_and_catch_all(tmp_path: Path, *, in_process: bool) -> None:
    async with opened(tmp_path, in_process=in_process) as (stack, upstream):
        port = upstream.port
        # A host that is a dictionary, without any upstream.
        colour = await asked(stack, "my.kv", "/colour")
        assert (colour.status, colour.body) == (200, b"blue")
        assert (await asked(stack, "my.kv", "/none")).status == 404
        assert (await asked(stack, "my.kv", "/colour", "PUT")).status == 405
        # A handler of a host, and the catch-all of the others.
        assert (await asked(stack, NAME, "/a", "POST", port)).header("egress-denied") is None
        assert (await asked(stack, OTHER, "/b", "GET", port)).header("egress-denied") is None
        refused = await asked(stack, OTHER, "/b", "POST", port)
        assert (refused.status, refused.body) == (405, b"not here")
        # Deny beats every handler, and a host without a rule stays closed, whatever the module has for it.
        assert (await asked(stack, NAME, "/secret", "GET", port)).header("egress-denied") == "rule.denied"
        assert (await asked(stack, "unknown.example.test")).header("egress-denied") == "host.unknown"
    seen = [(request.method, request.target, request.header("x-sandbox")) for request in upstream.requests]
    assert seen == [("POST", "/a", SANDBOX), ("GET", "/b", None)]


@FORMS
async def test_handlers_are_chosen_while_the_sandbox_runs(tmp_path: Path, *, in_process: bool) -> None:
    async with opened(tmp_path, in_process=in_process) as (stack, upstream):
        port = upstream.port
        routes = HandlerChoices(stack.engine).routes()

        async def choose(**choice: object) -> dict[str, object]:
            reply = await routes["POST", "/handlers/*"]({"name": SANDBOX, **choice})
            assert reply.status == 200, reply.body
            return dict(reply.body)

        def code(response: Response) -> str | None:
            return response.header("egress-denied")

        # A catch-all of the sandbox's own comes before that of the module, and behind its handlers by host.
        await choose(catch_all={"use": "block"})
        assert code(await asked(stack, OTHER, "/b", "GET", port)) == "handler.denied"
        assert code(await asked(stack, NAME, "/a", "GET", port)) is None
        # A handler for a host, with parameters.
        paths = {"use": "allow_paths", "params": {"paths": ["/good"]}}
        shown = await choose(by_host={NAME: paths}, catch_all={"use": "block"})
        assert shown["by_host"] == {NAME: paths}
        assert code(await asked(stack, NAME, "/good", "GET", port)) is None
        assert code(await asked(stack, NAME, "/bad", "GET", port)) == "handler.denied"
        # The rules hold, whatever is chosen.
        await choose(by_host={NAME: {"use": "allow_paths", "params": {"paths": ["/secret"]}}})
        assert code(await asked(stack, NAME, "/secret", "GET", port)) == "rule.denied"
        # A handler that fails denies.
        await choose(by_host={NAME: {"use": "breaks"}})
        assert code(await asked(stack, NAME, "/a", "GET", port)) == "handler.failed"
        # Nothing chosen: those of the module again.
        await choose()
        assert code(await asked(stack, NAME, "/a", "GET", port)) is None
        events = [line for line in stack.lines() if line["event"] == "handlers.chosen"]
        assert [line["change"] for line in events] == [
            "all others: block",
            f"{NAME}: allow_paths, all others: block",
            f"{NAME}: allow_paths",
            f"{NAME}: breaks",
            "none",
        ]
    assert [request.target for request in upstream.requests] == ["/a", "/good", "/a"]
