"""The review page on a large log: its list, a filtered list, one request, the charts.

Pages are asked for without a socket, so that what is measured is the page. How many lines there are, and
where they are kept, is set as for `bench.review`. Prints numbers; judges nothing.

    EGRESS_BENCH_LINES=10000000 python -m bench ui
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from starlette.types import ASGIApp, Message

from bench._timing import seconds
from bench.review import LINES, Row, open_log
from egress.review import Filters, Index
from egress.ui import ChainWatch, IndexPool
from egress.ui import make as make_site

PAGES = {
    "list": "/",
    "list, denied": "/?verdict=deny",
    "list, one host and a status": "/?host=git.example.com&status=5xx",
    "small chart": "/strip",
    "charts": "/charts",
    "rules": "/rules",
}


def run() -> Iterator[Row]:
    """Measure every page on one log."""
    with open_log() as folder:
        yield from _rows(folder)


def _rows(folder: Path) -> Iterator[Row]:
    with Index(folder) as index:
        index.catch_up()
        name = index.query(Filters(event="exchange"), 1).entries[0].request
    desk = IndexPool(folder)
    site = make_site(desk, ChainWatch(()), [], lambda: time.time_ns() // 1000, is_watching=False)
    for title, path in {**PAGES, "one request": f"/request?id={name}"}.items():
        limit = 150.0 if title == "list" else None
        took = seconds(lambda path=path: _ask(site, path))  # type: ignore[misc]
        yield f"page: {title}, {LINES} lines", took * 1000, "ms", limit
    desk.close()
    yield "most memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB", None


def _ask(site: ASGIApp, path: str) -> None:
    way, _, query = path.partition("?")
    scope = {"type": "http", "method": "GET", "path": way, "query_string": query.encode(), "headers": []}
    scope |= {"scheme": "http", "root_path": "", "http_version": "1.1", "server": ("localhost", 80)}
    statuses: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        statuses.append(message.get("status", 0))

    async def answered() -> None:
        await site(scope, receive, send)

    asyncio.run(answered())
    if statuses[0] != 200:
        raise RuntimeError(f"{path} answered {statuses[0]}")
