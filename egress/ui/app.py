"""The ASGI application: routes, static files and error pages.

The application opens no socket, so tests call it directly. The caller must put `RequestGuard` in front.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from egress.errors import EgressError, UsageError
from egress.review.index_pool import BusyError, IndexPool, TooSlowError
from egress.ui.chain_watch import ChainWatch
from egress.ui.page_context import STATIC_FILES, STATIC_TYPES, NotFoundError, Page, PageContext, environment
from egress.ui.pages import PAGES


def make(
    pool: IndexPool,
    watch: ChainWatch,
    rules: Sequence[Path],
    now: Callable[[], int],
    *,
    is_watching: bool = True,
) -> Starlette:
    """Build the application, without its guard. `is_watching` verifies the log in the background."""
    site = PageContext(pool, watch, tuple(rules), now, environment())
    routes = [Route(path, _endpoint(site, page), methods=["GET"]) for path, page in PAGES.items()]
    routes.append(Route("/static/{name}", _static, methods=["GET"]))

    # The check must end before the pool closes: nothing may hold up the shutdown.
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        checking = asyncio.create_task(watch.run()) if is_watching else None
        yield
        if checking is not None:
            checking.cancel()
            with suppress(asyncio.CancelledError):
                await checking
        pool.close()

    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: _not_found(site)})


def _endpoint(site: PageContext, page: Page) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return await page(site, request)
        except EgressError as error:
            return site.page("problem.html", status_of(error), message=error.message, hint=error.hint)

    return answer


def status_of(error: EgressError) -> int:
    """Return the HTTP status for an error page."""
    if isinstance(error, NotFoundError):
        return 404
    if isinstance(error, UsageError):
        return 400
    return 503 if isinstance(error, BusyError | TooSlowError) else 500


def _not_found(site: PageContext) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(_: Request, __: Exception) -> Response:
        return site.page("problem.html", 404, message="page not found", hint="start at the list of requests")

    return answer


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC_TYPES:
        return Response("file not found\n", 404, media_type="text/plain")
    return Response(
        STATIC_FILES[name], headers={"content-type": STATIC_TYPES[name], "cache-control": "max-age=86400"}
    )
