"""The planted values of one sandbox, and whether a request carries one.

Theory of operation. A canary is made like a placeholder: from the key of the sandbox, a shape and a name,
so each sandbox has its own, and no file holds it. Other than a placeholder it stands for no secret and is
swapped nowhere: nothing honest sends it. So a request with it is denied wherever it goes, before the rules
are asked, and the code says whether the sandbox is to lose its access.

Values are found as they are, in any case, percent-encoded up to four times, and inside base64 at each
offset. Stated limits: what is compressed, encrypted, escaped in JSON or taken apart is not found, nor is
base64 of what is not the very value.
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
)
from egress.types import Head, RuleRef, Shape

SEEN_CODE = "canary.seen"
STOPPED_CODE = "canary.stopped"
# No name of a secret holds a space: a canary is never the stand-in of one.
_LABEL_PREFIX = "canary "
_MAX_BYTES_PER_CHARACTER = 1 + 2 * MAX_ENCODING_LAYERS
"""How many bytes stand for one, where percent-encoding encodes its own `%` again: `%25252541`."""


@dataclass(frozen=True, slots=True)
class CanarySighting:
    """A canary in what a sandbox sends."""

    code: str
    rule: RuleRef | None = None
    """Which one, as the rules call it; None where it stands too deep to be told."""


@dataclass(frozen=True, slots=True, repr=False)
class Canaries:
    """All canaries of one sandbox; immutable."""

    _values: Placeholders
    _rules: Mapping[str, RuleRef] = field(default_factory=dict)
    """What the rules call each, by label."""
    _stops: frozenset[str] = frozenset()
    _plain: BytesAhoCorasick = field(init=False, compare=False)
    _coded: BytesAhoCorasick = field(init=False, compare=False)
    longest: int = field(init=False, default=1)
    """The most bytes that a value takes in any spelling that is looked for over pieces."""
    _longest_bare: int = field(init=False, default=1)
    """The same of spellings without percent-encoding."""

    def __post_init__(self) -> None:
        values = [each.value.encode("ascii") for each in self._values.all]
        coded = [needle for value in values for needle in base64_needles(value)]
        plain = [value.lower() for value in values]
        object.__setattr__(self, "_plain", BytesAhoCorasick(plain, matchkind=MatchKind.LeftmostFirst))
        object.__setattr__(self, "_coded", BytesAhoCorasick(coded, matchkind=MatchKind.LeftmostFirst))
        bare = max((len(each) for each in (*values, *coded)), default=1)
        object.__setattr__(self, "_longest_bare", bare)
        object.__setattr__(self, "longest", bare * _MAX_BYTES_PER_CHARACTER)

    @classmethod
    def of(cls, key: bytes, wanted: Iterable[tuple[RuleRef, Shape, bool]]) -> Self:
        """Make the canaries of the sandbox that owns `key`, by name and shape, and whether each stops it."""
        named = {_LABEL_PREFIX + rule.id: (rule, like, stops) for rule, like, stops in wanted}
        values = Placeholders.of(key, [(label, like) for label, (_, like, _) in named.items()])
        rules = {label: rule for label, (rule, _, _) in named.items()}
        return cls(values, rules, frozenset(label for label, (_, _, stops) in named.items() if stops))

    @property
    def all(self) -> tuple[Placeholder, ...]:
        """The values to plant, each under the name that the rules give it."""
        return tuple(
            Placeholder(each.secret.removeprefix(_LABEL_PREFIX), each.like, each.value)
            for each in self._values.all
        )

    def seen_in(self, head: Head) -> CanarySighting | None:
        """What a head says of those it carries; None where it carries none."""
        if not self._values.is_in(head):
            return None
        found = {sighting.secret for sighting in self._values.find(head)}
        # What nests too deep to be searched is told as one: no honest client nests that deep.
        return self._seen(found - {None}) or (CanarySighting(SEEN_CODE) if found else None)

    def seen_among(self, data: bytes) -> CanarySighting | None:
        """The same for bytes of a body."""
        found = self._in_layer(data)
        # Other than in a head, what nests deeper than this is no reason: a body may be any bytes.
        for _ in range(MAX_ENCODING_LAYERS):
            if b"%" not in data or (peeled := unquote_to_bytes(data)) == data:
                break
            data = peeled
            found |= self._in_layer(data)
        return self._seen(found)

    def tail(self, data: bytes) -> bytes:
        """The end of a body so far: what a value may begin in that ends in the next piece."""
        end = data[1 - self.longest :] if self.longest > 1 else b""
        return end if b"%" in end else end[1 - self._longest_bare :]

    def seen_in_names(self, names: Iterable[str]) -> CanarySighting | None:
        """The same for host names, as they were asked for."""
        return self.seen_in(Head("", "https", "\n".join(names), 0, "", ()))

    def masked(self, text: str, between: str = "/") -> str:
        """A path or a name for the log: parts that carry one are masked. No spelling holds a `/` or `.`."""
        if not self._values.is_in_text(text):
            return text
        return between.join(
            "*" * len(part) if self._values.is_in_text(part) else part for part in text.split(between)
        )

    def _in_layer(self, data: bytes) -> set[str | None]:
        values = self._values.all
        found: set[str | None] = set()
        found |= {values[index].secret for index, _, _ in self._plain.find_matches_as_indexes(data.lower())}
        return found | {
            values[index // 3].secret for index, _, _ in self._coded.find_matches_as_indexes(data)
        }

    def _seen(self, labels: set[str | None]) -> CanarySighting | None:
        """Of several, one that stops the sandbox: it is what follows from them."""
        names = sorted(label for label in labels if label is not None)
        if not names:
            return None
        stopping = [name for name in names if name in self._stops]
        return CanarySighting(STOPPED_CODE if stopping else SEEN_CODE, self._rules[(stopping or names)[0]])

    def __repr__(self) -> str:
        return f"Canaries({', '.join(each.secret for each in self.all)})"


# Looking for canaries in what one request sends: its head, then its body piece by piece.
#
# The piece in which a value ends is never let through. Pieces before it may have gone, with the beginning of
# the value. Must not keep more than the longest spelling of a value, of the body and of what is said aside.
class CanaryScan:
    """The watch over one request; not to be shared."""

    __slots__ = ("_aside", "_canaries", "_tail")

    def __init__(self, canaries: Canaries) -> None:
        self._canaries = canaries
        self._tail = b""
        self._aside = b""

    def scan_head(self, head: Head) -> CanarySighting | None:
        """What there is to say of a head that carries a canary; None where it carries none."""
        return self._canaries.seen_in(head)

    def masked(self, text: str) -> str:
        """The path or the method of that head, for the log."""
        return self._canaries.masked(text)

    def scan_piece(self, piece: bytes, *, aside: bool = False) -> CanarySighting | None:
        """The same for the next piece of the body, and for what began in the pieces before.

        `aside` is for what may stand between two pieces and is none, such as a ping: it must not take
        the place of what a value began in. Values that are split over such are found as well.
        """
        data = (self._aside if aside else self._tail) + piece
        if aside:
            self._aside = self._canaries.tail(data)
        else:
            self._tail = self._canaries.tail(data)
        return self._canaries.seen_among(data)
