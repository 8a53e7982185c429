"""What it costs to ask a handler that does nothing, in this process and in one of its own."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path

from egress.exchange import AllowByHandler, HandlerCall
from egress.handlers.caller import HandlerCaller
from egress.handlers.opening import open_handlers
from egress.types import HandlerUse, Head, Identity

Row = tuple[str, float, str, float | None]

FILE = """
from egress.handlers import Allow, Context, Request, handler

@handler
async def passes(request: Request, context: Context) -> Allow:
    return Allow()

@handler
def plain(request: Request, context: Context) -> Allow:
    return Allow()

@handler
async def adds(request: Request, context: Context) -> Allow:
    return Allow(set_headers={"x-team": str(context.params["team"])})
"""
HEADERS = (
    ("host", "api.example.com"),
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"),
    ("accept", "application/json"),
    ("accept-language", "en-GB,en;q=0.9"),
    ("x-api-version", "2026-01-01"),
)
ROUNDS = 9


def call(name: str) -> HandlerCall:
    head = Head("GET", "https", "api.example.com", 443, "/repos/acme/widget/issues?state=open", HEADERS)
    use = HandlerUse(name, '{"team": "blue"}' if name == "adds" else "{}")
    return HandlerCall(use, Identity("box"), head, "api.example.com#read", ("api",))


async def microseconds(caller: HandlerCaller, name: str, times: int) -> float:
    """One call, in microseconds: the best of several rounds."""
    asked, best = call(name), float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(times):
            found = caller.start(asked, b"")
            verdict = await found if isinstance(found, Awaitable) else found
            assert isinstance(verdict, AllowByHandler)
        best = min(best, (time.perf_counter() - began) / times)
    return best * 1e6


async def measured() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        both, coroutines = Path(folder) / "handlers.py", Path(folder) / "coroutines.py"
        both.write_text(FILE)
        coroutines.write_text(FILE.replace("@handler\ndef plain", "@handler\nasync def plain"))
        inside = await open_handlers(coroutines, in_process=True)
        outside = await open_handlers(both, in_process=False)
        try:
            return [
                ("in the process, allow", await microseconds(inside, "passes", 2000), "us", 30.0),
                (
                    "in the process, a header from a parameter",
                    await microseconds(inside, "adds", 2000),
                    "us",
                    None,
                ),
                ("in its own, allow", await microseconds(outside, "plain", 500), "us", 400.0),
                ("in its own, allow, a coroutine", await microseconds(outside, "passes", 500), "us", None),
                (
                    "in its own, a header from a parameter",
                    await microseconds(outside, "adds", 500),
                    "us",
                    None,
                ),
            ]
        finally:
            await outside.close()


def run() -> list[Row]:
    return asyncio.run(measured())


if __name__ == "__main__":
    for name, value, unit, target in run():
        aim = "" if target is None else f"  (aim: {target:g} {unit})"
        print(f"{name:<44} {value:>10.2f} {unit}{aim}")
