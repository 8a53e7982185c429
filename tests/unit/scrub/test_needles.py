"""Search and masking of one whole value."""

from __future__ import annotations

import subprocess
import sys

import pytest

from egress.errors import SecretValueError
from egress.scrub import MAX_HITS, Masked, Needles
from egress.scrub.needles import MAX_NEEDLE_BYTES
from egress.types import Secret

TOKEN = Secret("token", b"s3cr3t-value-0001")
OTHER = Secret("other", b"another-value-0002")


def plain(*needles: bytes) -> Needles:
    return Needles(dict.fromkeys(needles, ("n",)))


def test_masks_every_occurrence_and_keeps_the_length() -> None:
    masked = Needles.of([TOKEN]).mask(b"a s3cr3t-value-0001 b s3cr3t-value-0001")
    assert masked == Masked(b"a " + b"*" * 17 + b" b " + b"*" * 17, {"token": 2})
    assert masked.hits == 2


def test_returns_the_same_object_when_nothing_is_found() -> None:
    data = b"nothing to see here"
    assert Needles.of([TOKEN]).mask(data).data is data


def test_masks_every_byte_of_overlapping_needles() -> None:
    assert plain(b"abcd", b"cdef").mask(b"xabcdefx").data == b"x******x"


def test_masks_a_needle_inside_another_and_on_its_own() -> None:
    assert plain(b"bc", b"abcd").mask(b"abcd bc abc").data == b"**** ** a**"


def test_masks_a_needle_that_overlaps_itself() -> None:
    assert plain(b"aba").mask(b"xababax").data == b"x*****x"


def test_masks_a_needle_that_the_detector_reports_only_through_another() -> None:
    """The detector skips first bytes and reports the leftmost match only; the window finds the rest."""
    many = [b"%04d-filler" % number for number in range(20)]
    needles = plain(b"abcdXYZW", b"XYZWpqrs", b"Wpqrstuv", *many)
    assert needles.mask(b"--abcdXYZWpqrstuv--").data == b"--" + b"*" * 15 + b"--"


def test_masks_a_long_needle_that_the_detector_reports_only_through_a_short_one() -> None:
    many = [b"%04d-fil" % number for number in range(20)]
    long = b"XXWXYZ" + b"0123456789" * 20
    assert plain(b"abcdWXYZ", long, *many).mask(b"--" + long + b"--").data == b"--" + b"*" * 206 + b"--"


def test_finds_a_needle_too_short_to_be_found_by_its_end() -> None:
    many = [b"%04d-fil" % number for number in range(20)]
    assert plain(b"abcd", b"xyz", *many).mask(b"-abcd-xyz-").data == b"-****-***-"


def test_counts_every_place_once_however_close_they_are() -> None:
    assert plain(b"aa").mask(b"aaaa").found == {"n": 3}
    near = b"-" * 9000 + TOKEN.reveal() + b" " + TOKEN.reveal() + OTHER.reveal() + TOKEN.reveal()
    assert Needles.of([TOKEN, OTHER]).mask(near).found == {"token": 3, "other": 1}
    assert Needles.of([TOKEN, OTHER]).mask(TOKEN.reveal() + near).found == {"token": 4, "other": 1}


@pytest.mark.parametrize("count", [1, 7, 8, 32, 33, 120])
def test_finds_each_of_many_needles(count: int) -> None:
    needles = [b"needle-%04d-x" % number for number in range(count)]
    compiled = plain(*needles)
    assert len(compiled) == count
    for needle in needles:
        assert compiled.mask(b"<" + needle + b">").data == b"<" + b"*" * len(needle) + b">"


def test_counts_each_secret_under_its_name() -> None:
    needles = Needles.of([TOKEN, OTHER])
    masked = needles.mask(TOKEN.reveal() + b" " + OTHER.reveal() + b" " + OTHER.reveal())
    assert masked.found == {"token": 1, "other": 2}


def test_counts_a_value_that_two_secrets_share_for_both() -> None:
    twin = Secret("twin", TOKEN.reveal())
    assert Needles.of([TOKEN, twin]).mask(TOKEN.reveal()).found == {"token": 1, "twin": 1}


def test_masks_text_as_latin_1() -> None:
    masked = Needles.of([TOKEN]).mask_text("\xe9 s3cr3t-value-0001")
    assert masked.text == "\xe9 " + "*" * 17
    assert masked.hits == 1


def test_masks_text_that_is_not_latin_1_without_failing() -> None:
    assert Needles.of([TOKEN]).mask_text("\u20ac\ud800 s3cr3t-value-0001").text == "?? " + "*" * 17


def test_a_mask_is_a_valid_header_name() -> None:
    assert Needles.of([TOKEN]).mask_text("x-" + TOKEN.reveal().decode()).text == "x-" + "*" * 17


def test_no_secrets_find_nothing() -> None:
    assert Needles.of([]).mask(b"anything") == Masked(b"anything", {})
    assert Needles.of([]).open_tail(b"anything") == 0


def test_cuts_a_long_secret_and_masks_all_of_it() -> None:
    value = bytes(0x21 + (number * number + number // 90) % 90 for number in range(3 * MAX_NEEDLE_BYTES + 5))
    needles = Needles.of([Secret("key", value)])
    assert needles.longest <= MAX_NEEDLE_BYTES
    assert min(map(len, needles)) > MAX_NEEDLE_BYTES // 2
    for text in (value, value.hex().encode()):
        assert needles.mask(b"[" + text + b"]").data == b"[" + b"*" * len(text) + b"]"


def test_open_tail_is_the_longest_end_that_may_become_a_needle() -> None:
    needles = plain(b"secret", b"create")
    assert needles.open_tail(b"data: hello\n\n") == 0
    assert needles.open_tail(b"data: s") == 1
    assert needles.open_tail(b"data: secre") == 5
    assert needles.open_tail(b"data: secreate cre") == 3
    assert needles.open_tail(b"data: secret") == 0
    assert plain(b"secret", b"longer than it").open_tail(b"data: secret") == 0
    assert plain(b"secrets", b"ts longer than it").open_tail(b"data: secrets") == 2


@pytest.mark.parametrize("needle", [b"abcdefgh", b"abcd", b"abc", b"aabbaabb", b"xyxyxyxz"])
def test_open_tail_sees_every_beginning_of_a_needle(needle: bytes) -> None:
    needles = plain(needle, b"quite another one")
    for length in range(1, len(needle)):
        assert needles.open_tail(b"--" + needle[:length]) == length
        assert needles.open_tail(needle[:length]) == length
    assert needles.open_tail(b"--" + needle + b"-") == 0


def test_looks_for_the_needles_of_one_secret_alone() -> None:
    needles = Needles.of([TOKEN, OTHER])
    for secret, foreign in ((TOKEN, OTHER), (OTHER, TOKEN)):
        assert needles.finds_secret(secret.name, b"<" + secret.reveal() + b">")
        assert needles.finds_secret(secret.name, secret.reveal().hex().encode())
        assert not needles.finds_secret(secret.name, foreign.reveal())
    assert not needles.finds_secret("stranger", TOKEN.reveal() + OTHER.reveal())


def test_open_tail_sees_a_beginning_that_overlaps_a_false_one() -> None:
    assert plain(b"ababX--").open_tail(b"ababab") == 4


def test_refuses_an_empty_needle() -> None:
    with pytest.raises(ValueError, match="empty"):
        plain(b"")


def test_refuses_a_short_secret() -> None:
    with pytest.raises(SecretValueError, match="'tiny'"):
        Needles.of([TOKEN, Secret("tiny", b"abc")])


def test_shows_no_needle_in_its_repr() -> None:
    assert "s3cr3t" not in repr(Needles.of([TOKEN]))


@pytest.mark.parametrize("more", [0, 1, 5000])
def test_beyond_so_many_occurrences_all_is_masked_unseen(more: int) -> None:
    """The work for a value is bounded, and no byte that was not looked at stays."""
    data = b"<" + (TOKEN.reveal() + b",") * (MAX_HITS + more) + b">"
    masked = Needles.of([TOKEN]).mask(data)
    assert masked.hits == MAX_HITS + min(more, 1)
    assert (masked.data == b"*" * len(data)) is (more > 0)
    assert TOKEN.reveal() not in masked.data


MEMORY = """
import gc, random, string
from egress.scrub import Needles
from egress.types import Secret

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def token(length):
    return "".join(dice.choices(string.ascii_letters + string.digits, k=length)).encode()

dice = random.Random(4)
before = Needles.of([Secret("first", token(40))])
gc.collect()
start, kept = resident(), [Needles.of([Secret(f"s{n}", token(LENGTH))]) for n in range(COUNT)]
print((resident() - start) // len(kept))
"""


@pytest.mark.parametrize(("length", "count"), [(40, 60), (200, 30), (1000, 10)])
def test_the_search_for_a_secret_takes_little_memory(length: int, count: int) -> None:
    """A thousand secrets took nearly a gigabyte, a single long one 22 MB."""
    code = MEMORY.replace("LENGTH", str(length)).replace("COUNT", str(count))
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(told.stdout) < 200_000
