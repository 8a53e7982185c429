"""One stream, chunk by chunk: what goes out at once, what is held, what is counted."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from egress.scrub import Needles, Scrubber
from egress.scrub.needles import MAX_NEEDLE_BYTES
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


def test_counts_an_occurrence_inside_what_is_held_back_once() -> None:
    stream = Scrubber(Needles({b"abcdabcdX": ("long",), b"abcd": ("short",)}))
    out = stream.feed(b"-abcdabcd")
    assert stream.found == {"short": 2}
    out += stream.feed(b"Y") + stream.finish()
    assert b"".join(out) == b"-********Y"
    assert stream.found == {"short": 2}


def test_nothing_stands_before_the_beginning_of_a_stream() -> None:
    needles = Needles({b"Xsecret-value": ("n",)})
    for stream in (Scrubber(needles), Scrubber(Needles({}))):
        stream.update_needles(needles)
        assert b"".join(stream.feed(b"secret-value") + stream.finish()) == b"secret-value"
    assert b"".join(Scrubber(needles).feed(b"secret-value-")) == b"secret-value-"


def test_keeps_a_bounded_state_whatever_the_secret_and_the_stream() -> None:
    long = bytes(33 + number % 90 for number in range(20_000))
    stream = Scrubber(Needles.of([Secret("long", long)]))
    for chunk in (long[:1999], long * 20, long[:5]):
        stream.feed(chunk)
        assert stream.held < MAX_NEEDLE_BYTES
        assert sum(sys.getsizeof(getattr(stream, name)) for name in ("_came", "_goes", "_past")) < 64 * 1024


def test_without_secrets_everything_flows() -> None:
    stream = Scrubber(Needles.of([]))
    assert stream.feed(b"abc") == [b"abc"]
    assert stream.finish() == []


LATE = b"brand-new-secret-value-9876"
BOTH = Needles.of([TOKEN, Secret("late", LATE)])


def test_finds_what_it_learns_about_from_then_on() -> None:
    stream = Scrubber(Needles({}))
    assert stream.feed(LATE) == [LATE]
    stream.update_needles(BOTH)
    assert stream.feed(LATE + b"!") == [b"*" * len(LATE) + b"!"]
    assert stream.found == {"late": 1}


@pytest.mark.parametrize("size", [1, 5, 100])
@pytest.mark.parametrize("cut", range(len(LATE) + 1))
def test_masks_what_is_left_of_a_value_that_had_begun_before_it_was_known(cut: int, size: int) -> None:
    """What has gone out is gone; the rest is not."""
    stream = Scrubber(Needles.of([TOKEN]))
    data = b"x" * 5000 + b"a " + LATE[:cut]
    sent = b"".join(piece for at in range(0, len(data), size) for piece in stream.feed(data[at : at + size]))
    stream.update_needles(BOTH)
    rest = b"".join([*stream.feed(LATE[cut:] + b" b"), *stream.finish()])
    gone = len(sent) - len(data) + cut
    expected = b"*" * (len(LATE) - gone) if gone < len(LATE) else b""
    assert rest == expected + b" b"
    assert stream.hits == (gone < len(LATE))


def test_remembers_enough_for_the_last_byte_of_the_longest_needle() -> None:
    longest = bytes(33 + number % 90 for number in range(MAX_NEEDLE_BYTES))
    stream = Scrubber(Needles({}))
    assert stream.feed(b"x" * 9000 + longest[:-1])
    stream.update_needles(Needles({longest: ("late",)}))
    assert b"".join(stream.feed(longest[-1:]) + stream.finish()) == b"*"


def test_masks_what_was_held_back_as_the_beginning_of_another_one() -> None:
    stream = Scrubber(Needles({b"-abcdef-ghi": ("one",)}))
    assert stream.feed(b"x-abcdef-g") == [b"x"]
    stream.update_needles(Needles({b"-abcdef-ghi": ("one",), b"abcdef": ("two",)}))
    assert stream.hits == 1
    assert stream.finish() == [b"-******-g"]


def test_counts_an_occurrence_once_although_it_learns_after_it() -> None:
    stream = Scrubber(Needles({b"abab": ("n",)}))
    out = stream.feed(b"xabab")
    stream.update_needles(Needles({b"abab": ("n",), b"zzzz": ("z",)}))
    out += stream.feed(b"c") + stream.finish()
    assert b"".join(out) == b"x****c"
    assert stream.found == {"n": 1}


def test_does_not_find_a_value_across_the_end_of_a_message() -> None:
    stream = Scrubber(Needles({}))
    stream.feed(LATE[:9])
    stream.finish()
    stream.update_needles(BOTH)
    assert stream.feed(LATE[9:] + b"~") == [LATE[9:] + b"~"]
