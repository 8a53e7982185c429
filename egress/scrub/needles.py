"""Compiled search for the spellings of secrets, and the masking of whole values and streams.

A *needle* is a byte string to be found. A single sentence fixes the meaning of a scrub: **every byte that
belongs to any occurrence of any needle is masked**, overlapping occurrences included. There is no order
and no "first match wins", so that a stream and a whole value can agree.

Search has two steps. The detector answers "nothing here" for a whole chunk at memory speed: one
automaton for each group of needles, small enough for the library's vector search. It looks for the
needles without their first bytes, which for many tokens are public (`ghp_`) and for escaped forms
shared with innocent text (`%20`). Only where it reports something are the needles themselves
searched, each at every position of a window around the report. Nothing is lost: a needle contains
its pattern, the detector's reports do not overlap but every occurrence of a pattern touches one,
so every occurrence of a needle lies inside a window one needle wide on both sides of a report.

Needles longer than `MAX_NEEDLE_BYTES` are cut into pieces that are needles of their own: all pieces
of an occurrence are masked, hence all of it, and the memory a stream needs stays bounded.

This module must not keep searched data beyond the open end of a stream, and must not show a needle in an
exception.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ahocorasick_rs import BytesAhoCorasick, MatchKind

from egress.scrub.spellings import spellings
from egress.types import Secret

MASK_BYTE = b"*"
MAX_NEEDLE_BYTES = 2048

# Up to 32 patterns one automaton passes about 16 GB/s, above 64 less than 1 GB/s (bench/scrub.py).
_MAX_GROUP_NEEDLES = 32
# Below this many the library picks a slower search than plain `find` for each needle.
_MIN_DETECTOR_NEEDLES = 8
_SKIPPED_BYTES = 4
_HEAD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Masked:
    """Bytes without the secrets, as long as before, and how often each secret was found."""

    data: bytes
    found: Mapping[str, int]

    @property
    def hits(self) -> int:
        return sum(self.found.values())


@dataclass(frozen=True, slots=True)
class MaskedText:
    """Text without the secrets, as long as before, and how often each secret was found."""

    text: str
    found: Mapping[str, int]

    @property
    def hits(self) -> int:
        return sum(self.found.values())


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A needle at a place: `data[start:end]`, a spelling of the secrets in `names`."""

    start: int
    end: int
    names: tuple[str, ...]


class Needles:
    """The compiled search for a set of secrets; immutable, made once for many streams."""

    __slots__ = ("_groups", "_heads", "_names", "_of", "_open", "_pairs", "_starts", "longest", "shortest")

    def __init__(self, names: Mapping[bytes, tuple[str, ...]]) -> None:
        """Compile needles, each with the names of the secrets it belongs to. See also `of`."""
        pieces: dict[bytes, tuple[str, ...]] = {}
        for needle, owners in names.items():
            for piece in _pieces(needle):
                pieces[piece] = tuple(dict.fromkeys(pieces.get(piece, ()) + owners))
        ordered = sorted(pieces)
        self._names = pieces
        self._of: dict[str, list[bytes]] = {}
        # The shortest needle first: it is the value itself, which is nearly always the one that occurs.
        for needle in sorted(ordered, key=len):
            for name in pieces[needle]:
                self._of.setdefault(name, []).append(needle)
        self.longest = max(map(len, ordered), default=0)
        self.shortest = min(map(len, ordered), default=0)
        self._groups = tuple(_Group(group) for group in _divided(ordered))
        self._starts = frozenset(
            needle[:length] for needle in ordered for length in range(1, min(len(needle), _HEAD_BYTES))
        )
        self._pairs = frozenset(
            needle[at : at + 2] for needle in ordered for at in range(max(0, len(needle) - 2))
        )
        self._open: dict[bytes, list[bytes]] = {}
        for needle in ordered:
            if len(needle) > _HEAD_BYTES:
                self._open.setdefault(needle[:_HEAD_BYTES], []).append(needle)
        self._heads = BytesAhoCorasick(list(self._open)) if self._open else None

    @classmethod
    def of(cls, secrets: Iterable[Secret]) -> Needles:
        """Compile all spellings of these secrets; raises SecretValueError for one that is too short."""
        names: dict[bytes, tuple[str, ...]] = {}
        for secret in secrets:
            for spelling in spellings(secret):
                names[spelling] = (*names.get(spelling, ()), secret.name)
        return cls(names)

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._names)

    def __repr__(self) -> str:
        return f"<Needles: {len(self)}>"

    def occur_in(self, data: bytes) -> bool:
        """Tell whether there is any occurrence; cheap enough for every chunk and head."""
        if len(data) < self.shortest:
            return False
        for group in self._groups:  # noqa: SIM110 - a generator costs more than most answers
            if group.occurs_in(data):
                return True
        return False

    def finds_secret(self, name: str, data: bytes) -> bool:
        """Tell whether a needle of this secret occurs."""
        for needle in self._of.get(name, ()):  # noqa: SIM110 - see above
            if needle in data:
                return True
        return False

    def occurrences(self, data: bytes) -> Iterator[Occurrence]:
        """Yield every occurrence of every needle, overlapping ones too, in no particular order."""
        for group in self._groups:
            for needle, start in group.occurrences(data):
                yield Occurrence(start, start + len(needle), self._names[needle])

    def mask(self, data: bytes) -> Masked:
        """Mask every occurrence in one whole value; the length stays."""
        found: Counter[str] = Counter()
        masked = bytearray()
        for occurrence in self.occurrences(data):
            masked = masked or bytearray(data)
            mask_range(masked, occurrence.start, occurrence.end)
            found.update(occurrence.names)
        return Masked(bytes(masked) if masked else data, found)

    def mask_text(self, text: str) -> MaskedText:
        """Mask a header name, a value or a reason phrase, which are bytes read as latin-1.

        A character that no byte can be becomes `?`, so that this never fails on foreign text.
        """
        masked = self.mask(text.encode("latin-1", "replace"))
        return MaskedText(masked.data.decode("latin-1"), masked.found)

    def open_tail(self, data: bytes) -> int:
        """Return how many bytes at the end could be the beginning of a needle: the longest such end."""
        last = data[-2:]
        # Nearly every piece ends in two bytes that stand side by side in no needle.
        if last not in self._pairs and last[-1:] not in self._starts:
            return 0
        tail = data[max(0, len(data) - self.longest + 1) :]
        if self._heads is not None:
            for _, start, head_end in self._heads.find_matches_as_indexes(tail, overlapping=True):
                rest = tail[start:]
                if any(
                    needle.startswith(rest) and len(needle) > len(rest)
                    for needle in self._open[tail[start:head_end]]
                ):
                    return len(rest)
        for length in range(min(_HEAD_BYTES - 1, len(tail)), 0, -1):
            if tail[-length:] in self._starts:
                return length
        return 0


def mask_range(data: bytearray, start: int, end: int) -> None:
    """Write the mask over one occurrence."""
    data[start:end] = MASK_BYTE * (end - start)


class _Group:
    """A handful of needles that are detected together."""

    __slots__ = ("_detector", "_longest", "_needles")

    def __init__(self, needles: list[bytes]) -> None:
        self._needles = needles
        self._longest = max(map(len, needles))
        # A needle as short as the skip has no rest to look for; it is looked for whole.
        patterns = {needle[_SKIPPED_BYTES:] or needle for needle in needles}
        self._detector = (
            BytesAhoCorasick(sorted(patterns), matchkind=MatchKind.LeftmostFirst)
            if len(needles) >= _MIN_DETECTOR_NEEDLES
            else None
        )

    def occurs_in(self, data: bytes) -> bool:
        detector = self._detector
        if detector is not None and not detector.find_matches_as_indexes(data):
            return False
        return next(self.occurrences(data), None) is not None

    def occurrences(self, data: bytes) -> Iterator[tuple[bytes, int]]:
        for begin, end in self._windows(data):
            for needle in self._needles:
                start = data.find(needle, begin, end)
                while start >= 0:
                    yield needle, start
                    start = data.find(needle, start + 1, end)

    def _windows(self, data: bytes) -> list[tuple[int, int]]:
        if self._detector is None:
            return [(0, len(data))]
        reports = self._detector.find_matches_as_indexes(data)
        windows: list[tuple[int, int]] = []
        for _, start, end in reports:
            begin = max(0, start - self._longest)
            # Windows that touch are joined, else an occurrence across both would be seen in neither
            # or counted twice.
            if windows and begin <= windows[-1][1]:
                begin = windows.pop()[0]
            windows.append((begin, end + self._longest))
        return windows


def _pieces(needle: bytes) -> Iterator[bytes]:
    """Cut a long needle into pieces of about equal size, so that no piece is short enough to be innocent."""
    if not needle:
        raise ValueError("a needle must not be empty")
    count = -(-len(needle) // MAX_NEEDLE_BYTES)
    for turn in range(count):
        yield needle[len(needle) * turn // count : len(needle) * (turn + 1) // count]


def _divided(needles: list[bytes]) -> Iterator[list[bytes]]:
    """Split into groups of about equal size; a small rest would fall to the slow search."""
    count = -(-len(needles) // _MAX_GROUP_NEEDLES)
    for turn in range(count):
        yield needles[turn::count]


# Compiling the search for a long value takes as long as for many short ones together, so a value that is
# added to a set is compiled alone and joined. Each part searches the data as it came and all occurrences
# are masked, so the result is the same as that of a search compiled as a whole; it costs a little more.
class JoinedNeedles:
    """Several compiled searches, used together: an occurrence for any part counts."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Iterable[Needles]) -> None:
        self._parts = tuple(parts)

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __repr__(self) -> str:
        return f"<JoinedNeedles: {len(self)}>"

    def mask(self, data: bytes) -> Masked:
        """Mask every occurrence in one whole value; the length stays."""
        found: Counter[str] = Counter()
        masked = bytearray()
        for part in self._parts:
            for occurrence in part.occurrences(data):
                masked = masked or bytearray(data)
                mask_range(masked, occurrence.start, occurrence.end)
                found.update(occurrence.names)
        return Masked(bytes(masked) if masked else data, found)


# Scrubbing a stream chunk by chunk has the same result as scrubbing it as a whole. An occurrence that is
# still incomplete begins with bytes at the end of the data so far. So the longest end of the data that is a
# proper beginning of some needle is held back, and every byte before it is released at once: a stream of
# events is not delayed unless a secret may have begun.
#
# The held bytes exist twice: as they came, for the search to go on, and as they will go out, because a
# complete occurrence may reach into them. An occurrence counts when its last byte arrives: occurrences that
# end inside the held part were counted and masked before.
#
# Needles may change while the stream runs: a secret may get its value, or another one. The upstream may have
# known that value before. Released bytes are gone, but the rest of an occurrence can still be masked: so the
# end of the released bytes is remembered, as it came, for `update_needles`. From then on the held bytes may
# begin before the bytes that are still to go out. At most three times `MAX_NEEDLE_BYTES` are kept.
_REMEMBERED_BYTES = MAX_NEEDLE_BYTES - 1
"""An incomplete needle cannot begin further back than this."""


class Scrubber:
    """The scrub of one stream; not to be shared between streams."""

    __slots__ = ("_came", "_goes", "_needles", "_past", "found")

    def __init__(self, needles: Needles, found: Counter[str] | None = None) -> None:
        """`found` is a shared counter; without it the scrubber makes its own."""
        self._needles = needles
        self._came = b""
        self._goes = b""
        self._past = b""
        self.found: Counter[str] = Counter() if found is None else found
        """How often each secret was found so far."""

    @property
    def hits(self) -> int:
        """How many occurrences were found so far; anything above zero is a reason to block."""
        return self.found.total()

    @property
    def held(self) -> int:
        """How many bytes are held back now."""
        return len(self._goes)

    def update_needles(self, needles: Needles) -> None:
        """Search for these from now on, also in the held bytes and across their beginning.

        `hits` may grow with it, as with `feed`.
        """
        before, self._needles = frozenset(self._needles), needles
        released = len(self._past)
        came = self._past + self._came[len(self._came) - len(self._goes) :]
        # Occurrences of the needles before these are counted and masked already.
        news = [
            each
            for each in needles.occurrences(came)
            if each.end > released and came[each.start : each.end] not in before
        ]
        self._goes = self._masked(news, released, self._goes)
        # More may be held now than must be: the next piece, or the end, lets it go.
        self._came = came[len(came) - max(needles.open_tail(came), len(self._goes)) :]

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes and return what may go out: non-empty chunks, or none at all.

        When `hits` has grown, the secret is masked in what is returned and in what follows.
        """
        if not chunk:
            return []
        needles = self._needles
        known, ahead = len(self._came), len(self._came) - len(self._goes)
        came, goes = self._came + chunk, self._goes + chunk
        if needles.occur_in(came):
            goes = self._masked([each for each in needles.occurrences(came) if each.end > known], ahead, goes)
        whole, tail = len(came), needles.open_tail(came)
        self._came = came[whole - tail :]
        split = len(goes) - tail
        if split <= 0:
            self._goes = goes
            return []
        self._goes = goes[split:]
        fresh = came[ahead : whole - tail]
        past = fresh if split >= _REMEMBERED_BYTES else self._past + fresh
        self._past = past[-_REMEMBERED_BYTES:]
        return [goes[:split]]

    def finish(self) -> list[bytes]:
        """Return what was held back: the stream has ended, so it was no secret."""
        rest = self._goes
        self._came = self._goes = self._past = b""
        return [rest] if rest else []

    def _masked(self, occurrences: list[Occurrence], ahead: int, goes: bytes) -> bytes:
        """Mask and count occurrences; `goes` begins `ahead` bytes behind the data that was searched."""
        if not occurrences:
            return goes
        masked = bytearray(goes)
        for each in occurrences:
            mask_range(masked, max(0, each.start - ahead), each.end - ahead)
            self.found.update(each.names)
        return bytes(masked)
