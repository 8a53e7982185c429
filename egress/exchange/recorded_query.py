"""The query of a request, as its record keeps it: the names of its keys, and the values that a rule keeps.

A query is a place for credentials: signed URLs, tokens, the placeholders of programs. So a value is kept only
where a rule names its key, and never that of a slot for a credential. No name and no value is kept that holds
a known secret or a canary, or looks like a credential. Every reading that percent-encoding allows is judged,
and judged whole, before it is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from egress.credentials import CanaryScan
from egress.request_name_folding import fold_parameter
from egress.rules.decide.predicates import decode_parameter
from egress.rules.language.credential_guess import looks_like_credential
from egress.run_ticket import mask_tickets
from egress.scrub import Needles
from egress.types import Decision, Effects

QueryRecord = tuple[tuple[str, tuple[str, ...]], ...]
"""Names of keys, each with the values that are kept of it."""

MAX_QUERY_NAMES: Final = 16
MAX_QUERY_VALUES: Final = 4
"""Values kept of one key."""
HIDDEN_TEXT: Final = "***"
"""Stands for a name or value that must not be kept."""
MORE_NAMES: Final = "\N{HORIZONTAL ELLIPSIS}"
"""The last name of a query that has more keys than are recorded."""
_MAX_DECODINGS: Final = 4
_MAX_PARTS: Final = 64
"""Parts of a query that are looked at: a sandbox can send thousands, and the record names a few."""


@dataclass(slots=True)
class SecretCheck:
    """Tells whether a text holds a value that must not be recorded."""

    needles: Needles | None
    """The secrets that may come back from the destination."""
    canaries: CanaryScan | None
    knows: Callable[[str], bool] | None
    """Tells it of the values of all secrets."""

    def holds(self, text: str) -> bool:
        needles, canaries = self.needles, self.canaries
        return (
            mask_tickets(text) != text
            or (self.knows is not None and self.knows(text))
            or (needles is not None and bool(needles.mask_text(text).hits))
            or (canaries is not None and canaries.masked(text) != text)
        )


def recorded_query(decision: Decision | None, effects: Effects, check: SecretCheck) -> QueryRecord:
    """Return the keys of the query that was decided, and the values that the effects keep.

    A request that was refused before its decision has no record of its query.
    """
    _, mark, query = decision.target.partition("?") if decision is not None else ("", "", "")
    if not mark:
        return ()
    kept = _kept_names(effects) if effects.kept_query else effects.kept_query
    pairs = _pairs(query)
    # One search for all texts: nearly every query holds nothing, and this runs for each request that has one.
    texts = [text for name, value in pairs for text in ((name, value) if name in kept else (name,))]
    is_clean = not check.holds("\n".join(texts))
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        shown = _shown(name, check, is_clean=is_clean)
        if shown not in found and len(found) == MAX_QUERY_NAMES:
            found[MORE_NAMES] = []
            break
        values = found.setdefault(shown, [])
        if name in kept and len(values) < MAX_QUERY_VALUES:
            values.append(_shown(value, check, is_clean=is_clean))
    return tuple((name, tuple(values)) for name, values in found.items())


def _kept_names(effects: Effects) -> frozenset[str]:
    """Return the keys whose values are kept: those of slots for credentials are not."""
    slots = [*effects.strips, *(slot for need in effects.needs for slot in need.slots)]
    taken = {fold_parameter(slot.name) for slot in slots if slot.kind == "query"}
    return frozenset(name for name in effects.kept_query if fold_parameter(name) not in taken)


def _pairs(query: str) -> list[tuple[str, str]]:
    """Return names and values, decoded once, as a rule on the query reads them."""
    parts = [part.partition("=") for part in query.split("&", _MAX_PARTS)[:_MAX_PARTS] if part]
    return [(decode_parameter(name), decode_parameter(value)) for name, _, value in parts]


def _shown(text: str, check: SecretCheck, *, is_clean: bool) -> str:
    if _must_hide(text, check, is_clean=is_clean):
        return HIDDEN_TEXT
    # Bytes of the wire are latin-1 here; people write UTF-8.
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def _must_hide(text: str, check: SecretCheck, *, is_clean: bool) -> bool:
    """Judge every reading of a text; `is_clean` says that the first one holds no known value."""
    for _ in range(_MAX_DECODINGS):
        if looks_like_credential(text) or (not is_clean and check.holds(text)):
            return True
        decoded = decode_parameter(text)
        if decoded == text:
            return False
        text, is_clean = decoded, False
    # Encoded deeper than anybody needs: what it is cannot be told.
    return True
