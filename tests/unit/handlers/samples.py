"""Calls of handlers for tests, and files of handlers."""

from __future__ import annotations

from pathlib import Path

from egress.exchange import HandlerCall
from egress.handlers.module import HandlerModule, module_of
from egress.types import HandlerUse, Head, Identity

START = "from egress.handlers import Allow, Answer, Context, Deny, Request, handler\n"


def call(
    name: str = "one",
    target: str = "/a?b=c",
    *,
    params: str = "{}",
    sandbox: str = "box",
    reads_body: bool = False,
) -> HandlerCall:
    head = Head("GET", "https", "api.example.com", 443, target, (("host", "api.example.com"), ("x-a", "1")))
    identity = Identity(sandbox, "web", (("repo", "acme/app"),))
    return HandlerCall(
        HandlerUse(name, params),
        identity,
        head,
        "api.example.com#read",
        ("api",),
        {"body": "git"},
        reads_body,
    )


def file_of(folder: Path, text: str) -> Path:
    path = folder / "handlers.py"
    path.write_text(START + text)
    return path


def module(text: str) -> HandlerModule:
    return module_of(Path("/etc/egress/handlers.py"), (START + text).encode())
