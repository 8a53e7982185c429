"""The part of an exchange that rules look at, read by the schema instead of parsing the whole line.

The values that rules look at come back in line after line, but for the path. So they are looked up together
and understood once. A line that is not just as the schema says is left to the caller, who parses all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from msgspec import to_builtins

from egress.audit.fields import CUT_MARK
from egress.review.drafting.observation import Observation, observe
from egress.review.indexed_line import SealedExchange, exchange

KEPT = 16_384

_FIELD_NAMES = (
    *("event", "profile", "scheme", "host", "port", "method", "status", "verdict", "code"),
    *("injected", "alpn", "address"),
)
_GET_VALUES = attrgetter(*_FIELD_NAMES[1:])


@dataclass(frozen=True, slots=True, eq=False)
class ExchangeKind:
    """The values that many lines share. A kind is equal to itself alone, even if another has its values."""

    seen: Observation
    """Without a path."""


class ParsedExchange(NamedTuple):
    """The part of an exchange that rules look at."""

    kind: ExchangeKind
    path: str
    id: str


class ExchangeParser:
    """Reads lines, and remembers the kinds that it met."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[object, ...], ExchangeKind | None] = {}

    def cut(self, line: bytes) -> ParsedExchange | None:
        """Read a line, given without its end; None means that it has to be parsed."""
        found = exchange(line)
        if found is None or found.path.endswith(CUT_MARK):
            return None
        values = _GET_VALUES(found)
        kind = self._kinds[values] if values in self._kinds else self._met(values, found)
        return ParsedExchange(kind, found.path, found.request or found.connection) if kind else None

    def _met(self, values: tuple[object, ...], line: SealedExchange) -> ExchangeKind | None:
        """The kind of a line that is met for the first time."""
        # A sandbox chooses what is in a line, so how much is remembered is bounded.
        if len(self._kinds) >= KEPT:
            self._kinds.clear()
        injected = [to_builtins(each) for each in line.injected]
        found = observe(dict(zip(_FIELD_NAMES, ("exchange", *values), strict=True)) | {"injected": injected})
        kind = self._kinds[values] = ExchangeKind(found) if found else None
        return kind
