"""A stream scrubbed in any chunks equals the whole scrubbed by the definition."""

from __future__ import annotations

import base64
import json
import urllib.parse
from itertools import combinations, pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from egress.scrub import Needles, Scrubber
from egress.scrub.needles import _decoys
from egress.types import Secret

tiny = st.lists(st.sampled_from(b"ab*"), max_size=60).map(bytes)
tiny_needles = st.lists(
    st.lists(st.sampled_from(b"ab*"), min_size=1, max_size=7).map(bytes), min_size=1, max_size=12
)
cuts = st.lists(st.integers(0, 400), max_size=12)


def by_definition(needles: list[bytes], data: bytes) -> bytes:
    """Mask every byte that belongs to any occurrence of any needle."""
    hidden = {
        at
        for needle in needles
        for start in range(len(data) - len(needle) + 1)
        if data[start : start + len(needle)] == needle
        for at in range(start, start + len(needle))
    }
    return bytes(0x2A if at in hidden else byte for at, byte in enumerate(data))


def compiled(needles: list[bytes]) -> Needles:
    return Needles(dict.fromkeys(needles, ("n",)))


def chunks_of(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def streamed(needles: Needles, chunks: list[bytes]) -> tuple[bytes, int]:
    scrubber = Scrubber(needles)
    out = bytearray()
    came = 0
    for chunk in chunks:
        released = scrubber.feed(chunk)
        came += len(chunk)
        assert all(released), "an empty chunk ends a chunked body"
        out += b"".join(released)
        assert came - len(out) == scrubber.held <= max(0, needles.longest - 1)
    out += b"".join(scrubber.finish())
    return bytes(out), scrubber.hits


# Longer than the pattern that the detector looks for, and full of parts of each other.
long_needles = st.lists(
    st.lists(
        st.sampled_from((b"ab", b"b", b"abcdefgh", b"abcdefgh" * 3, b"x" * 24)), min_size=1, max_size=9
    ).map(b"".join),
    min_size=1,
    max_size=6,
)


@given(long_needles, st.lists(st.integers(0, 99), max_size=12), cuts)
@example([b"x" * 40, b"x" * 24], [0, 1, 0, 7, 1], [3])
def test_long_needles_equal_the_definition(needles: list[bytes], picks: list[int], cuts: list[int]) -> None:
    """Whole needles, beginnings and ends of needles, one behind the other."""
    parts = [part for each in needles for part in (each, each[: len(each) // 2], each[len(each) // 3 :])]
    data = b"".join(parts[pick % len(parts)] for pick in picks)
    compiled_needles = compiled(needles)
    whole = compiled_needles.mask(data)
    assert whole.data == by_definition(needles, data)
    assert (whole.data, whole.hits) == streamed(compiled_needles, chunks_of(data, cuts))
    assert compiled_needles.occur_in(data) == (whole.hits > 0)


@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=40))
def test_no_three_bytes_cover_what_the_detector_looks_for(needles: list[bytes]) -> None:
    """The library would stop at each of those bytes, instead of using its vector search."""
    decoys = [frozenset(decoy) for decoy in _decoys(needles)]
    assert len(decoys) == 4
    assert all(one.isdisjoint(other) for one, other in combinations(decoys, 2))


@given(tiny_needles, tiny, cuts)
@example([b"aa"], b"aaaaaa", [1, 2, 3])
@example([b"ab", b"abab", b"ba"], b"ababab", [3])
def test_every_chunking_equals_the_definition(needles: list[bytes], data: bytes, cuts: list[int]) -> None:
    compiled_needles = compiled(needles)
    out, hits = streamed(compiled_needles, chunks_of(data, cuts))
    assert out == by_definition(needles, data)
    whole = compiled_needles.mask(data)
    assert (whole.data, whole.hits) == (out, hits)


@given(tiny_needles, tiny)
def test_single_bytes_equal_the_definition(needles: list[bytes], data: bytes) -> None:
    out, _ = streamed(compiled(needles), [bytes((byte,)) for byte in data])
    assert out == by_definition(needles, data)


@given(tiny_needles, st.one_of(tiny, st.text("ab", min_size=4, max_size=12).map(str.encode)))
@example([b"ababX"], b"ababab")
def test_holds_back_exactly_what_may_become_a_needle(needles: list[bytes], data: bytes) -> None:
    expected = max(
        (
            length
            for length in range(len(data) + 1)
            for needle in needles
            if length < len(needle) and data.endswith(needle[:length])
        ),
        default=0,
    )
    assert compiled(needles).open_tail(data) == expected


@given(st.data(), st.integers(9, 90), cuts)
def test_many_needles_in_groups_equal_the_definition(
    data: st.DataObject, count: int, cuts: list[int]
) -> None:
    """Enough needles for the detector, with shared beginnings, ends and overlaps."""
    text = st.lists(st.sampled_from(b"abc"), min_size=5, max_size=12).map(bytes)
    needles = data.draw(st.lists(text, min_size=count, max_size=count, unique=True))
    parts = data.draw(st.lists(st.one_of(st.sampled_from(needles), st.just(b"c"), tiny), max_size=20))
    whole = b"".join(parts)
    out, _ = streamed(compiled(needles), chunks_of(whole, cuts))
    assert out == by_definition(needles, whole)


@given(tiny_needles, st.lists(st.binary(max_size=9), max_size=4), st.binary(max_size=40))
@example([b"ab"], [b"ab"], b"a")
def test_the_quick_answers_are_those_of_the_search(
    needles: list[bytes], more: list[bytes], data: bytes
) -> None:
    """Asked of everything that passes: no occurrence may be missed, and none invented."""
    named = dict.fromkeys(needles, ("one",)) | dict.fromkeys(filter(None, more), ("two",))
    search = Needles(named)
    for text in (data, b"".join([*more, data]), b"".join([data, *needles, *more])):
        names = {name for found in search.occurrences(text) for name in found.names}
        assert search.occur_in(text) == bool(names)
        assert {name for name in ("one", "two", "three") if search.finds_secret(name, text)} == names


secrets = st.binary(min_size=8, max_size=60)


@given(secrets, st.binary(max_size=20), st.binary(max_size=20), cuts)
def test_no_usual_encoding_of_a_secret_gets_through(
    value: bytes, before: bytes, after: bytes, cuts: list[int]
) -> None:
    needles = Needles.of([Secret("token", value)])
    around = before + value + after
    for encoded in (
        around,
        base64.b64encode(around),
        base64.urlsafe_b64encode(around),
        around.hex().upper().encode(),
        urllib.parse.quote(around).encode(),
        urllib.parse.quote_plus(around).encode(),
    ):
        out, hits = streamed(needles, chunks_of(encoded, cuts))
        assert hits
        assert len(out) == len(encoded)
        assert out == by_definition(list(needles), encoded)


@given(st.text(min_size=8, max_size=40), st.text(max_size=10), st.booleans())
def test_no_json_of_a_secret_gets_through(value: str, before: str, ascii_only: bool) -> None:
    whole = json.dumps({"echo": before + value}, ensure_ascii=ascii_only)
    assert Needles.of([Secret("token", value.encode())]).mask(whole.encode()).hits


@given(st.lists(st.tuples(tiny_needles, tiny), min_size=1, max_size=4))
@example([([b"aab"], b"xaa"), ([b"aab", b"aa"], b"b")])
def test_what_is_learnt_under_way_masks_all_that_is_still_to_go_out(
    turns: list[tuple[list[bytes], bytes]],
) -> None:
    """By the definition: a byte of any occurrence that ends in what was held or comes after it is masked."""
    known: list[bytes] = []
    stream = Scrubber(Needles({}))
    out = b""
    hidden: set[int] = set()
    data = b""
    for more, chunk in turns:
        known += more
        stream.update_needles(compiled(known))
        data += chunk
        released = len(out)
        whole = by_definition(known, data)
        out += b"".join(stream.feed(chunk))
        hidden |= {at for at in range(released, len(data)) if whole[at] == 0x2A}
        assert stream.held == len(data) - len(out)
    out += b"".join(stream.finish())
    assert out == bytes(0x2A if at in hidden else byte for at, byte in enumerate(data))
