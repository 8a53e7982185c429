"""Placeholders of a sandbox, and the search for them in a request head.

Theory of operation. Nearly every head holds no placeholder, so that answer must be cheap: the head is joined
once, and two automata look for all values at the same time. The first knows the values in lower case, because
header names and hosts arrive in lower case. The second knows each value inside base64, at each of its three
possible offsets; it finds a value in Basic credentials of any user, and in other base64, without decoding.
Hexadecimal has no case, so the first knows it, too.

Percent-encoding is peeled in layers, and each layer is searched again. Text that still decodes after the last
layer counts as a sighting: no honest client nests that deep, and unsearched text must not pass as searched.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import unquote_to_bytes

from ahocorasick_rs import BytesAhoCorasick, MatchKind

from egress.credentials.placeholder import make_placeholder
from egress.types import Head, Shape, SlotKind

MAX_ENCODING_LAYERS = 4
"""Layers of percent-encoding that are peeled."""
_UNSEARCHABLE_HIT = -1


@dataclass(frozen=True, slots=True)
class PlaceholderSighting:
    """A placeholder in a head; `secret` is None if the text nests too deep to tell."""

    secret: str | None
    where: SlotKind


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The placeholder for one secret in one shape."""

    secret: str
    like: Shape
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True, repr=False)
class Placeholders:
    """The placeholders of a sandbox; immutable."""

    all: tuple[Placeholder, ...] = ()
    _plain: BytesAhoCorasick = field(init=False, compare=False)
    _coded: BytesAhoCorasick = field(init=False, compare=False)

    def __post_init__(self) -> None:
        values = [each.value.encode("ascii") for each in self.all]
        coded = [needle for value in values for needle in base64_needles(value)]
        plain = [needle for value in values for needle in lower_case_needles(value)]
        object.__setattr__(self, "_plain", _automaton(plain))
        object.__setattr__(self, "_coded", _automaton(coded))

    @classmethod
    def of(cls, key: bytes, wanted: Iterable[tuple[str, Shape]]) -> Self:
        """Derive the placeholders of the sandbox that owns `key`, one per secret name and shape."""
        pairs = sorted(set(wanted))
        return cls(
            tuple(Placeholder(secret, like, make_placeholder(like, key, secret)) for secret, like in pairs)
        )

    def value(self, secret: str, like: Shape) -> str | None:
        """Return the placeholder of a secret, or None if this sandbox has none of that shape."""
        return next((each.value for each in self.all if each.secret == secret and each.like == like), None)

    def is_in(self, head: Head) -> bool:
        """Report whether `find` would see anything in this head; cheap, asked for every request."""
        if not self.all:
            return False
        parts = [head.method, head.host, head.target]
        for header in head.headers:
            parts += header
        # No placeholder contains a line feed, so none can arise across two parts.
        return bool(self._hits("\n".join(parts)))

    def is_in_text(self, text: str) -> bool:
        """Report whether a part of a head carries a placeholder."""
        return bool(self.all) and bool(self._hits(text))

    def find(self, head: Head) -> tuple[PlaceholderSighting, ...]:
        """Return every secret whose placeholder occurs in the head, with the kind of its place."""
        if not self.all:
            return ()
        seen = [
            PlaceholderSighting(None if hit == _UNSEARCHABLE_HIT else self.all[hit].secret, where)
            for where, text in _places(head)
            for hit in self._hits(text)
        ]
        return tuple(dict.fromkeys(seen))

    def _hits(self, text: str) -> list[int]:
        layer = text.encode("latin-1", "replace")
        hits = self._hits_in_layer(layer)
        for _ in range(MAX_ENCODING_LAYERS):
            if b"%" not in layer:
                return hits
            peeled = unquote_to_bytes(layer)
            if peeled == layer:
                return hits
            hits += self._hits_in_layer(peeled)
            layer = peeled
        # Still encoded after the last layer: report it rather than let it pass unsearched.
        return hits if unquote_to_bytes(layer) == layer else [*hits, _UNSEARCHABLE_HIT]

    def _hits_in_layer(self, layer: bytes) -> list[int]:
        hits = [index // 2 for index, _, _ in self._plain.find_matches_as_indexes(layer.lower())]
        # Each value has three needles in base64, one for each offset.
        hits += [index // 3 for index, _, _ in self._coded.find_matches_as_indexes(layer)]
        return hits

    def __repr__(self) -> str:
        names = ", ".join(f"{each.secret}:{each.like}" for each in self.all)
        return f"Placeholders({names})"


def _automaton(needles: list[bytes]) -> BytesAhoCorasick:
    # This kind of match lets the automaton skip ahead: many times faster if nothing is found.
    return BytesAhoCorasick(needles, matchkind=MatchKind.LeftmostFirst)


def lower_case_needles(value: bytes) -> Iterator[bytes]:
    """Yield the two spellings of a value that are searched in text without its case."""
    yield value.lower()
    yield value.hex().encode("ascii")


def base64_needles(value: bytes) -> Iterator[bytes]:
    """Yield the characters that a value always has in base64, at offsets 0, 1 and 2.

    The first and last character may mix with the neighbours' bits, and are left out in that case.
    """
    for offset in range(3):
        shifted = bytes(offset) + value
        first = -(-offset * 8 // 6)
        yield binascii.b2a_base64(shifted, newline=False)[first : len(shifted) * 8 // 6]


def _places(head: Head) -> Iterator[tuple[SlotKind, str]]:
    path, _, query = head.target.partition("?")
    yield "path", f"{head.method}\n{path}"
    yield "query", query
    yield "header", head.host
    for name, line in head.headers:
        yield ("cookie" if name == "cookie" else "header"), f"{name}\n{line}"


NO_PLACEHOLDERS = Placeholders()
