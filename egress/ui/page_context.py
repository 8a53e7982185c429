"""Objects shared by all pages: index pool, chain watch, rule files, clock and templates."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from egress.errors import EgressError
from egress.review.index_pool import IndexPool
from egress.ui import formatting
from egress.ui.chain_watch import ChainWatch
from egress.ui.page_query import address

UI_FOLDER: Final = Path(__file__).parent
STATIC_TYPES: Final = {
    "style.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
FILTERS: Final = (
    *(formatting.number, formatting.counted, formatting.size, formatting.duration),
    *(formatting.age, formatting.share, formatting.when, formatting.lines),
    *(formatting.ticks, formatting.curl),
)


class NotFoundError(EgressError):
    """The requested item does not exist."""

    code = "ui.none"


@dataclass(frozen=True, slots=True)
class PageContext:
    """Objects shared by all pages."""

    pool: IndexPool
    watch: ChainWatch
    rules: Sequence[Path]
    """Rule files as named on the command line; empty: the default ones."""
    now: Callable[[], int]
    """UTC microseconds."""
    templates: Environment

    @property
    def seconds(self) -> int:
        return self.now() // 1_000_000

    def page(self, template: str, status: int = 200, /, **values: object) -> Response:
        """Render a page, or a part of one."""
        text = self.templates.get_template(template).render(chain=self.watch.chain(), **values)
        return HTMLResponse(text, status)


Page = Callable[[PageContext, Request], Awaitable[Response]]


def environment() -> Environment:
    """Load the templates. Every printed value is made visible and escaped; an undefined name raises."""
    # `StrictUndefined`: a misspelt name must fail a test, not print an empty cell.
    found = Environment(
        loader=FileSystemLoader(UI_FOLDER / "templates"),
        autoescape=True,
        finalize=formatting.finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.filters |= {each.__name__: each for each in FILTERS}
    found.globals |= {"address": address, "version": _version()}
    return found


# Script and style -----------------------------------------------------------------------------

STATIC_FILES: Final = {name: (UI_FOLDER / "static" / name).read_bytes() for name in STATIC_TYPES}


def _version() -> str:
    """Return a digest of the static files, so that browsers can cache each version."""
    return hashlib.sha256(b"".join(STATIC_FILES.values())).hexdigest()[:12]
