"""One stream, chunk by chunk: what goes out at once, what is held, what is counted."""

from __future__ import annotations

import sys
from collections import Counter

from egress.scrub import Needles, Scrubber
from egress.scrub.needles import LONGEST_NEEDLE
from egress.types import Secret

VALUE = b"s3cr3t-value-0001"
TOKEN = Secret("token", VALUE)


def scrubber() -> Scrubber:
    return Scrubber(Needles.of([TOKEN]))


def test_releases_an_event_at_once() -> None:
    stream = scrubber()
    assert stream.feed(b"data: hello\n\n") == [b"data: hello\n\n"]
    assert stream.held == 0


def test_passes_an_untouched_chunk_on_without_a_copy() -> None:
    chunk = b"x" * 1000
    assert scrubber().feed(chunk)[0] is chunk


def test_masks_a_secret_split_between_chunks() -> None:
    stream = scrubber()
    assert stream.feed(b"a " + VALUE[:9]) == [b"a "]
    assert stream.feed(VALUE[9:] + b" b") == [b"*" * 17 + b" b"]
    assert stream.hits == 1
    assert stream.found == {"token": 1}


def test_counts_where_it_is_told_to_count() -> None:
    found = Counter({"token": 1, "other": 2})
    Scrubber(Needles.of([TOKEN]), found).feed(VALUE)
    assert found == {"token": 2, "other": 2}


def test_never_returns_an_empty_chunk() -> None:
    stream = scrubber()
    assert stream.feed(b"") == []
    assert stream.feed(VALUE[:5]) == []
    assert stream.feed(b"") == []
    assert stream.finish() == [VALUE[:5]]
    assert stream.finish() == []


def test_releases_the_beginning_of_a_secret_when_it_was_none() -> None:
    stream = scrubber()
    stream.feed(VALUE[:16])
    assert stream.feed(b"!") == [VALUE[:16] + b"!"]
    assert stream.hits == 0


def test_counts_an_occurrence_once_although_it_stays_held() -> None:
    """After `xabab` the last `ab` is both masked already and a possible beginning."""
    stream = Scrubber(Needles({b"abab": ("n",)}))
    out = stream.feed(b"xabab") + stream.feed(b"c") + stream.finish()
    assert b"".join(out) == b"x****c"
    assert stream.hits == 1


def test_masks_what_reaches_into_the_held_part() -> None:
    """The occurrence begins in what was released and ends in what is held."""
    stream = Scrubber(Needles({b"abcd": ("one",), b"cdef": ("two",)}))
    assert stream.feed(b"abcd") == [b"**"]
    assert stream.feed(b"!") == [b"**!"]


def test_a_hit_is_known_when_its_last_byte_came() -> None:
    """So that a caller that blocks can cut before the masked bytes go out."""
    stream = scrubber()
    stream.feed(VALUE[:-1])
    assert stream.hits == 0
    stream.feed(VALUE[-1:])
    assert stream.hits == 1


def test_keeps_a_bounded_state_whatever_the_secret_and_the_stream() -> None:
    long = bytes(33 + number % 90 for number in range(20_000))
    stream = Scrubber(Needles.of([Secret("long", long)]))
    for chunk in (long[:1999], long * 20, long[:5]):
        stream.feed(chunk)
        assert stream.held < LONGEST_NEEDLE
        assert sum(sys.getsizeof(getattr(stream, name)) for name in ("_came", "_goes")) < 64 * 1024


def test_without_secrets_everything_flows() -> None:
    stream = Scrubber(Needles.of([]))
    assert stream.feed(b"abc") == [b"abc"]
    assert stream.finish() == []
