"""Canaries of a sandbox, and the search for them in requests.

Theory of operation. A canary is derived like a placeholder: from the key of the sandbox, a shape and a name,
so each sandbox has its own, and no file holds it. Unlike a placeholder it stands for no secret and is never
swapped, so no honest client sends it. A request with a canary is denied at any destination, before the rules
are asked; the code says whether the sandbox loses its access.

Values are found in any case, in hexadecimal, percent-encoded up to four times, and inside base64 at each
offset. Stated limits: compressed, encrypted, JSON-escaped or split values are not found, nor is base64 or
hexadecimal of a changed spelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import unquote_to_bytes

from ahocorasick_rs import BytesAhoCorasick, MatchKind

from egress.credentials.placeholder_search import (
    MAX_ENCODING_LAYERS,
    Placeholder,
    Placeholders,
    base64_needles,
    lower_case_needles,
)
from egress.types import Head, RuleRef, Shape

SEEN_CODE = "canary.seen"
STOPPED_CODE = "canary.stopped"
# Names of secrets contain no space, so a canary can never be the placeholder of a secret.
_LABEL_PREFIX = "canary "
_MAX_BYTES_PER_CHARACTER = 1 + 2 * MAX_ENCODING_LAYERS
"""Bytes for one character if percent-encoding encodes its own `%` again: `%25252541`."""


@dataclass(frozen=True, slots=True)
class CanarySighting:
    """A canary in the traffic of a sandbox."""

    code: str
    rule: RuleRef | None = None
    """The canary, as the rules name it; None if it is nested too deep to tell."""


@dataclass(frozen=True, slots=True, repr=False)
class Canaries:
    """The canaries of a sandbox; immutable."""

    _values: Placeholders
    _rules: Mapping[str, RuleRef] = field(default_factory=dict)
    """The reference of each canary, by label."""
    _stops: frozenset[str] = frozenset()
    _plain: BytesAhoCorasick = field(init=False, compare=False)
    _coded: BytesAhoCorasick = field(init=False, compare=False)
    longest: int = field(init=False, default=1)
    """Largest number of bytes a value takes in any spelling that is searched across pieces."""
    _longest_bare: int = field(init=False, default=1)
    """Largest number of bytes without percent-encoding."""

    def __post_init__(self) -> None:
        values = [each.value.encode("ascii") for each in self._values.all]
        coded = [needle for value in values for needle in base64_needles(value)]
        plain = [needle for value in values for needle in lower_case_needles(value)]
        object.__setattr__(self, "_plain", BytesAhoCorasick(plain, matchkind=MatchKind.LeftmostFirst))
        object.__setattr__(self, "_coded", BytesAhoCorasick(coded, matchkind=MatchKind.LeftmostFirst))
        bare = max((len(each) for each in (*plain, *coded)), default=1)
        object.__setattr__(self, "_longest_bare", bare)
        object.__setattr__(self, "longest", bare * _MAX_BYTES_PER_CHARACTER)

    @classmethod
    def of(cls, key: bytes, wanted: Iterable[tuple[RuleRef, Shape, bool]]) -> Self:
        """Derive the canaries of the sandbox that owns `key` from rule, shape, and whether each stops it."""
        named = {_LABEL_PREFIX + rule.id: (rule, like, stops) for rule, like, stops in wanted}
        values = Placeholders.of(key, [(label, like) for label, (_, like, _) in named.items()])
        rules = {label: rule for label, (rule, _, _) in named.items()}
        return cls(values, rules, frozenset(label for label, (_, _, stops) in named.items() if stops))

    @property
    def all(self) -> tuple[Placeholder, ...]:
        """Return the values to plant, each under its name in the rules."""
        return tuple(
            Placeholder(each.secret.removeprefix(_LABEL_PREFIX), each.like, each.value)
            for each in self._values.all
        )

    def seen_in(self, head: Head) -> CanarySighting | None:
        """Return the canary a head carries; None if it carries none."""
        if not self._values.is_in(head):
            return None
        found = {sighting.secret for sighting in self._values.find(head)}
        # Text nested too deep to search counts as a sighting: no honest client nests that deep.
        return self._seen(found - {None}) or (CanarySighting(SEEN_CODE) if found else None)

    def seen_among(self, data: bytes) -> CanarySighting | None:
        """Return the canary that bytes of a body carry; None if they carry none."""
        found = self._in_layer(data)
        # Unlike in a head, deeper nesting is no sighting: a body may hold any bytes.
        for _ in range(MAX_ENCODING_LAYERS):
            if b"%" not in data or (peeled := unquote_to_bytes(data)) == data:
                break
            data = peeled
            found |= self._in_layer(data)
        return self._seen(found)

    def tail(self, data: bytes) -> bytes:
        """Return the end of a body so far in which a value may begin that ends in the next piece."""
        end = data[1 - self.longest :] if self.longest > 1 else b""
        return end if b"%" in end else end[1 - self._longest_bare :]

    def seen_in_names(self, names: Iterable[str]) -> CanarySighting | None:
        """Return the canary that host names carry, in their spelling as asked for."""
        return self.seen_in(Head("", "https", "\n".join(names), 0, "", ()))

    def masked(self, text: str, between: str = "/") -> str:
        """Mask the parts of a path or name that carry a canary. No spelling contains a `/` or `.`."""
        if not self._values.is_in_text(text):
            return text
        return between.join(
            "*" * len(part) if self._values.is_in_text(part) else part for part in text.split(between)
        )

    def _in_layer(self, data: bytes) -> set[str | None]:
        values = self._values.all
        found: set[str | None] = set()
        lowered = self._plain.find_matches_as_indexes(data.lower())
        found |= {values[index // 2].secret for index, _, _ in lowered}
        return found | {
            values[index // 3].secret for index, _, _ in self._coded.find_matches_as_indexes(data)
        }

    def _seen(self, labels: set[str | None]) -> CanarySighting | None:
        """Return the most severe sighting: of several canaries, the first that stops the sandbox."""
        names = sorted(label for label in labels if label is not None)
        if not names:
            return None
        stopping = [name for name in names if name in self._stops]
        return CanarySighting(STOPPED_CODE if stopping else SEEN_CODE, self._rules[(stopping or names)[0]])

    def __repr__(self) -> str:
        return f"Canaries({', '.join(each.secret for each in self.all)})"


# The search through one request: its head, then its body piece by piece.
#
# The piece in which a value ends is never let through. Earlier pieces, with the beginning of the value, may
# have gone already. Must not keep more than the longest spelling of a value, of the body and of each aside.
class CanaryScan:
    """The search through one request; not shared between requests."""

    __slots__ = ("_aside", "_canaries", "_tail")

    def __init__(self, canaries: Canaries) -> None:
        self._canaries = canaries
        self._tail = b""
        self._aside = b""

    def scan_head(self, head: Head) -> CanarySighting | None:
        """Return the canary in the head; None if it carries none."""
        return self._canaries.seen_in(head)

    def masked(self, text: str) -> str:
        """Mask the path or method of the head for the log."""
        return self._canaries.masked(text)

    def scan_piece(self, piece: bytes, *, aside: bool = False) -> CanarySighting | None:
        """Return the canary that the next piece of the body completes; None if it completes none.

        `aside` marks data between two pieces that is not part of the body, such as a ping: it must not
        replace the remembered beginning of a value. Values split over several asides are found as well.
        """
        data = (self._aside if aside else self._tail) + piece
        if aside:
            self._aside = self._canaries.tail(data)
        else:
            self._tail = self._canaries.tail(data)
        return self._canaries.seen_among(data)
