"""Compiled search for the spellings of secrets, and the masking of whole values and streams.

A *needle* is a byte string to be found. A single sentence fixes the meaning of a scrub: **every byte that
belongs to any occurrence of any needle is masked**, overlapping occurrences included. There is no order
and no "first match wins", so that a stream and a whole value can agree.

Search has two steps. The detector answers "nothing here" for a whole chunk at memory speed: one
automaton for each group of needles, small enough for the library's vector search. It looks for a *pattern*
of each needle, a part from its middle: the first bytes of many tokens are public (`ghp_`), those of escaped
forms are shared with innocent text (`%20`), and short patterns keep the automaton small. Only where it
reports something are the needles themselves compared, each at the one place where its pattern would be.
Nothing is lost: a needle contains its pattern, and every occurrence of a pattern touches a report.

Needles longer than `MAX_NEEDLE_BYTES` are cut into pieces that are needles of their own: all pieces
of an occurrence are masked, hence all of it, and the memory a stream needs stays bounded.

This module must not keep searched data beyond the open end of a stream, and must not show a needle in an
exception.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from egress.scrub.spellings import spellings
from egress.types import Secret

MASK_BYTE = b"*"
MAX_NEEDLE_BYTES = 2048
MAX_HITS: Final = 1000
"""Occurrences that are masked one by one; a response with more of them is not passed on."""

# Up to 32 patterns one automaton passes about 16 GB/s, above 64 less than 1 GB/s (bench/scrub.py).
_MAX_GROUP_NEEDLES = 28
_PATTERN_BYTES = 24
_TRIED_PLACES = 64
_COMMONNESS: Final = bytes(
    9 if byte in b"0123456789" else 8 if byte in b"abcdef" else 5 if 0x20 <= byte < 0x7F else 2
    for byte in range(256)
)
"""How often a byte stands in what is downloaded, roughly: hexadecimal digits most often."""
_DECOYS = 4
_DECOY_BYTES = 12
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


class Occurrence(NamedTuple):
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
        self._pairs = _pairs_of(ordered)
        self._open: dict[bytes, list[bytes]] = {}
        for needle in ordered:
            if len(needle) > _HEAD_BYTES:
                self._open.setdefault(needle[:_HEAD_BYTES], []).append(needle)
        self._heads = _automaton(list(self._open), MatchKind.Standard) if self._open else None

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
        return _masked_whole(data, self.occurrences(data))

    def mask_text(self, text: str) -> MaskedText:
        """Mask a header name, a value or a reason phrase, which are bytes read as latin-1.

        A character that no byte can be becomes `?`, so that this never fails on foreign text.
        """
        masked = self.mask(text.encode("latin-1", "replace"))
        return MaskedText(masked.data.decode("latin-1"), masked.found)

    def open_tail(self, data: bytes) -> int:
        """Return how many bytes at the end could be the beginning of a needle: the longest such end."""
        # Nearly every piece ends in two bytes that stand side by side in no needle.
        if data[-1:] not in self._starts:
            pair = int.from_bytes(data[-2:], "big")
            if len(data) < 2 or not self._pairs[pair >> 3] >> (pair & 7) & 1:
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


def _masked_whole(data: bytes, occurrences: Iterable[Occurrence]) -> Masked:
    found: Counter[str] = Counter()
    masked = mask_each(data, 0, occurrences, found)
    return Masked(masked, found)


def mask_each(data: bytes, ahead: int, occurrences: Iterable[Occurrence], found: Counter[str]) -> bytes:
    """Mask and count occurrences; `data` begins `ahead` bytes behind the data that was searched.

    Beyond `MAX_HITS` the rest is not looked at, and all of the data is masked.
    """
    masked: bytearray | None = None
    for number, (start, end, names) in enumerate(islice(occurrences, MAX_HITS + 1)):
        for name in names:
            found[name] += 1
        if number == MAX_HITS:
            return MASK_BYTE * len(data)
        if masked is None:
            masked = bytearray(data)
        first = max(0, start - ahead)
        masked[first : end - ahead] = MASK_BYTE * (end - ahead - first)
    return data if masked is None else bytes(masked)


class _Group:
    """A handful of needles that are detected together."""

    __slots__ = ("_detector", "_needles", "_patterns", "_widest", "_worker")

    def __init__(self, needles: list[bytes]) -> None:
        self._needles: dict[bytes, list[tuple[bytes, int]]] = {}
        """Needles by their pattern, each with where in the needle its pattern begins."""
        for needle in needles:
            start, end = _pattern_range(needle)
            self._needles.setdefault(needle[start:end], []).append((needle, start))
        self._patterns = sorted(self._needles)
        self._widest = max(map(len, self._patterns))
        self._detector = _automaton([*self._patterns, *_decoys(self._patterns)], MatchKind.LeftmostFirst)
        self._worker: BytesAhoCorasick | None = None

    def occurs_in(self, data: bytes) -> bool:
        if not self._detector.find_matches_as_indexes(data):
            return False
        return next(self.occurrences(data), None) is not None

    def occurrences(self, data: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield every occurrence once, however many of them overlap."""
        for begin, end in self._windows(data):
            if self._worker is None:
                # Most responses hold no secret, so this second automaton is made for the first one that may.
                self._worker = _automaton(self._patterns, MatchKind.Standard)
            found = self._worker.find_matches_as_indexes(data[begin:end], overlapping=True)
            for pattern, start, _ in found:
                for needle, offset in self._needles[self._patterns[pattern]]:
                    at = begin + start - offset
                    if at >= 0 and data.startswith(needle, at):
                        yield needle, at

    def _windows(self, data: bytes) -> list[tuple[int, int]]:
        """Return the ranges in which patterns occur: every occurrence lies inside of one."""
        windows: list[tuple[int, int]] = []
        for _, start, end in self._detector.find_matches_as_indexes(data):
            # The reports do not overlap, but every occurrence of a pattern touches a report.
            begin = max(0, start - self._widest)
            if windows and begin <= windows[-1][1]:
                begin = windows.pop()[0]
            windows.append((begin, end + self._widest))
        return windows


def _pattern_range(needle: bytes) -> tuple[int, int]:
    """Return the part of a needle that the detector looks for."""
    # A needle as short as the skip has no rest to look for; it is looked for whole.
    first = _SKIPPED_BYTES if len(needle) > _SKIPPED_BYTES else 0
    last = len(needle) - _PATTERN_BYTES
    if last <= first:
        return first, len(needle)
    # The search stops where the beginning of a pattern may be, so that should be rare. Else the middle is
    # best: many long secrets begin or end in public text, such as the head of a JWT.
    middle, common = (first + last) // 2, needle.translate(_COMMONNESS)
    near = range(max(first, middle - _TRIED_PLACES), min(last, middle + _TRIED_PLACES) + 1)
    start = min(near, key=lambda at: (sum(common[at : at + 4]), abs(at - middle)))
    return start, start + _PATTERN_BYTES


def _automaton(patterns: list[bytes], kind: MatchKind) -> BytesAhoCorasick:
    # The library's own choice is a table of 256 entries for each state, up to 44 MB for a long secret.
    return BytesAhoCorasick(patterns, matchkind=kind, implementation=Implementation.ContiguousNFA)


def _decoys(patterns: list[bytes]) -> Iterator[bytes]:
    """Patterns that never occur, and keep the library from a search that most data makes slow.

    Where three bytes, or fewer, cover all patterns, the library jumps from one of these bytes to the next. In
    data that is full of them, as hexadecimal digits are of a UUID, that is a hundred times slower than its
    vector search. Four patterns without a byte in common cannot be covered by three. They depend on the
    needles, so that data full of them can be made by nobody who does not know these.
    """
    seed = hashlib.sha256(b"\0".join(patterns)).digest()
    for number in range(_DECOYS):
        digest = hashlib.sha256(seed + bytes([number])).digest()[:_DECOY_BYTES]
        # Above ASCII, where the least of all data is; a quarter of these bytes for each.
        yield bytes([0x80 | number << 5 | each & 0x1F for each in digest])


def _pairs_of(needles: Iterable[bytes]) -> bytes:
    """Return a bit for each two bytes: set where they stand side by side in a needle, but for its end."""
    found = {needle[at : at + 2] for needle in needles for at in range(max(0, len(needle) - 2))}
    bits = bytearray(1 << 13)
    for pair in found:
        number = int.from_bytes(pair, "big")
        bits[number >> 3] |= 1 << (number & 7)
    return bytes(bits)


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
        return _masked_whole(data, (each for part in self._parts for each in part.occurrences(data)))


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
        self._goes = mask_each(self._goes, released, news, self.found)
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
            news = (each for each in needles.occurrences(came) if each.end > known)
            goes = mask_each(goes, ahead, news, self.found)
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
