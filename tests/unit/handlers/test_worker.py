"""The program of a worker, in this process: what it makes of a file and of calls."""

from __future__ import annotations

import asyncio

from egress.handlers.conversion import seen_by_handler
from egress.handlers.own_process import _message
from egress.handlers.worker import _manifest, _reply
from egress.handlers.worker_messages import HandlerEntry, Manifest
from tests.unit.handlers.samples import call, module

FILE = """
@handler(body=7, deadline=2)
async def one(request: Request, context: Context):
    if request.path == "/deny":
        return Deny(f"{context.values['repo']} {request.url}")
    if request.path == "/answer":
        return Answer(201, "né", {"x-a": "1"})
    if request.path == "/none":
        return None
    if request.path == "/raise":
        raise ValueError("sesame")
    return Allow("PUT", "/b", "c", {"x-a": "1"}, ["x-b"], b"new")

outbound_by_host = {"*.example.com": one}
outbound = one
"""


def test_a_manifest_says_what_the_file_has() -> None:
    assert _manifest(module(FILE)) == Manifest([HandlerEntry("one", 7, 2)], {"*.example.com": "one"}, "one")


def test_replies() -> None:
    made = module(FILE)

    def said(target: str) -> tuple[object, ...]:
        asked = call(target=target)
        message = _message(asked, seen_by_handler(asked, b"")[0])
        with asyncio.Runner() as runner:
            reply = _reply(made, message, runner)
        assert reply.ticket == message.ticket
        return reply.kind, reply.detail, reply.status, reply.path, reply.body, reply.reason

    assert said("/allow") == ("allow", "", 0, "/b", b"new", "")
    assert said("/answer") == ("answer", "", 201, None, "né".encode(), "")
    assert said("/deny") == ("deny", "", 0, None, None, "acme/app https://api.example.com/deny")
    assert said("/none") == ("value", "NoneType", 0, None, None, "")
    assert said("/raise") == ("raised", "ValueError:12", 0, None, None, "")


def test_tickets_do_not_repeat() -> None:
    asked = call()
    request, _ = seen_by_handler(asked, b"")
    assert len({_message(asked, request).ticket for _ in range(100)}) == 100
