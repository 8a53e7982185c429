"""Which page answers which address, and what becomes of an error."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from starlette.applications import Starlette

from egress.errors import ContentError, UsageError
from egress.review.index_pool import BusyError, TooSlowError
from egress.ui import ChainWatch, IndexPool, make
from egress.ui.app import status_of
from egress.ui.page_context import STATIC_TYPES, NotFoundError
from tests.unit.ui.page_app import NOW, app, ask, line, write


def test_an_unknown_address_is_told_on_a_page(tmp_path: Path) -> None:
    answer = ask(app(tmp_path), "/none/<b>")
    assert answer.status == 404
    assert "page not found" in answer.text
    assert "<b>" not in answer.text


def test_an_error_has_its_status() -> None:
    assert status_of(NotFoundError("a")) == 404
    assert status_of(UsageError("a")) == 400
    assert status_of(BusyError("a")) == status_of(TooSlowError("a")) == 503
    assert status_of(ContentError("a")) == 500


def test_a_log_that_is_not_there_is_told(tmp_path: Path) -> None:
    site = make(IndexPool(tmp_path / "none"), ChainWatch(()), [], lambda: NOW, is_watching=False)
    answer = ask(site, "/")
    assert answer.status == 500
    assert "audit log" in answer.text


def test_files_are_served_by_name_alone(tmp_path: Path) -> None:
    site = app(tmp_path)
    for name, kind in STATIC_TYPES.items():
        assert ask(site, f"/static/{name}").headers["content-type"] == kind
    for name in ("../site.py", "htmx.LICENSE", "", "..%2fsite.py"):
        assert ask(site, f"/static/{name}").status == 404


def test_the_chain_is_checked_while_it_is_served(tmp_path: Path) -> None:
    watch = ChainWatch([sys.executable, "-c", "print('{\"ok\": true}')"])
    site = make(IndexPool(write(tmp_path, [line(1)])), watch, [], lambda: NOW)
    assert isinstance(site, Starlette)

    async def serve() -> None:
        async with site.router.lifespan_context(site):
            for _ in range(1000):
                if watch.chain().word != "unchecked":
                    break
                await asyncio.sleep(0.01)

    asyncio.run(serve())
    assert watch.chain().word == "sound"
