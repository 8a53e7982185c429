"""What an address asks for: the filters of `egress log query`, by the same names; and back to an address.

A mistake in one of them is told on the page, beside what was typed, and finds nothing meanwhile. Pure:
who asks says what time it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from egress.errors import EgressError, UsageError
from egress.review import Filters, parse_typed

NAMES = (
    "sandbox",
    "host",
    "verdict",
    "secret",
    "status",
    "rule",
    "method",
    "code",
    "event",
    "grep",
    "since",
    "until",
)
MAX_FILTER_CHARS = 500
"""Characters of one filter."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Filters as they were typed, and what they mean."""

    texts: Mapping[str, str]
    """Those that are set, in the order of `NAMES`."""
    filters: Filters
    problem: str = ""
    """What is wrong with them; then `filters` asks for nothing, and is not to be used."""

    def url(self, path: str = "/", **changes: str) -> str:
        """An address with these filters, some of them changed; an empty one is left out."""
        kept = {**self.texts, **changes}
        return address(path, **kept)


def address(path: str, **values: str) -> str:
    """A path with a query; whatever is in the values stays in its place."""
    pairs = [(name, value) for name, value in values.items() if value]
    return f"{path}?{urlencode(pairs, errors='replace')}" if pairs else path


def parse_query(query: Mapping[str, str], now: int) -> PageQuery:
    """Read an address. `now` is in UTC microseconds."""
    texts = {name: query.get(name, "").strip()[:MAX_FILTER_CHARS] for name in NAMES}
    given = {name: text for name, text in texts.items() if text}
    try:
        return PageQuery(given, _filters(texts, now))
    except EgressError as error:
        return PageQuery(given, Filters(), f"{error.message}: {error.hint}" if error.hint else error.message)


def _filters(texts: Mapping[str, str], now: int) -> Filters:
    since, until = _moment(texts, "since", now), _moment(texts, "until", now)
    if since is not None and until is not None and since >= until:
        raise UsageError("`since` is not before `until`", "swap them")
    return Filters.of(texts, since, until)


def _moment(texts: Mapping[str, str], name: str, now: int) -> int | None:
    return parse_typed(texts[name], now) if texts[name] else None
