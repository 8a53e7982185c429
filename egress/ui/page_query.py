"""Filters in a page address: the names of `egress log query`, parsed and written back. Pure.

A mistake in a filter is shown on the page beside the typed text. Meanwhile the filter must match nothing. The
caller passes the current time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from egress.errors import EgressError, UsageError
from egress.review import FILTER_FIELDS, Filters, parse_typed

NAMES = (*(field.name for field in FILTER_FIELDS), "grep", "since", "until")
MAX_FILTER_CHARS = 500
"""Length of one filter."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Filters as typed, and as parsed."""

    texts: Mapping[str, str]
    """The filters that are set, in the order of `NAMES`."""
    filters: Filters
    problem: str = ""
    """The mistake, if any. `filters` is empty in that case and must not be used."""

    def url(self, path: str = "/", **changes: str) -> str:
        """Return an address with these filters and some changes; an empty value removes a filter."""
        kept = {**self.texts, **changes}
        return address(path, **kept)


def address(path: str, **values: str) -> str:
    """Return a path with a query. Values are encoded, so they cannot change the query."""
    pairs = [(name, value) for name, value in values.items() if value]
    return f"{path}?{urlencode(pairs, errors='replace')}" if pairs else path


def parse_query(query: Mapping[str, str], now: int) -> PageQuery:
    """Parse the query of an address. `now` is in UTC microseconds."""
    # Cut before parsing: an address can hold any amount of text.
    texts = {name: query.get(name, "").strip()[:MAX_FILTER_CHARS] for name in NAMES}
    given = {name: text for name, text in texts.items() if text}
    try:
        return PageQuery(given, _filters(texts, now))
    except EgressError as error:
        return PageQuery(given, Filters(), f"{error.message}: {error.hint}" if error.hint else error.message)


def _filters(texts: Mapping[str, str], now: int) -> Filters:
    since, until = _moment(texts, "since", now), _moment(texts, "until", now)
    if since is not None and until is not None and since >= until:
        raise UsageError("`since` must be before `until`", "swap them")
    return Filters.of(texts, since, until)


def _moment(texts: Mapping[str, str], name: str, now: int) -> int | None:
    return parse_typed(texts[name], now) if texts[name] else None
