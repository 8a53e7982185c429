"""The watch over one request: its head, and its body however it is cut into pieces."""

from __future__ import annotations

from base64 import b64encode

from hypothesis import given, settings
from hypothesis import strategies as st

from egress.credentials import Canaries, CanaryScan, CanarySighting
from egress.credentials.canary import SEEN_CODE
from egress.types import Head, Place, RuleRef
from tests.tiers import examples

DECOY = RuleRef("canaries", "decoy", Place("hosts.yaml", 3, 3))
CANARIES = Canaries.of(bytes(range(32)), [(DECOY, "github", False)])
VALUE = CANARIES.all[0].value.encode()
_ESCAPED = b"".join(b"%%%02X" % byte for byte in VALUE)
SPELLINGS = [
    *(VALUE, VALUE.upper(), b64encode(b"x" + VALUE)),
    *(_ESCAPED, _ESCAPED.replace(b"%", b"%252525"), VALUE.replace(b"_", b"%2525255f")),
    *(_ESCAPED[:3] + VALUE[1:], VALUE[:-1] + _ESCAPED[-3:]),
    *(VALUE.hex().encode(), VALUE.hex().upper().encode()),
]


def test_a_head_is_looked_at() -> None:
    head = Head("GET", "https", "a.example.com", 443, f"/{VALUE.decode()}")
    assert CanaryScan(CANARIES).scan_head(head) == CanarySighting(SEEN_CODE, DECOY)


def test_its_path_is_shown_without_it() -> None:
    assert CanaryScan(CANARIES).masked(f"/a/{VALUE.decode()}") == "/a/" + "*" * len(VALUE)


def test_what_is_said_aside_does_not_take_the_place_of_what_began_before() -> None:
    watch = CanaryScan(CANARIES)
    assert watch.scan_piece(VALUE[:20]) is None
    assert watch.scan_piece(b"x" * CANARIES.longest, aside=True) is None
    assert watch.scan_piece(VALUE[20:]) == CanarySighting(SEEN_CODE, DECOY)


def test_one_is_seen_over_what_is_said_aside() -> None:
    watch = CanaryScan(CANARIES)
    assert watch.scan_piece(VALUE[:20], aside=True) is None
    assert watch.scan_piece(b"x" * CANARIES.longest) is None
    assert watch.scan_piece(VALUE[20:], aside=True) == CanarySighting(SEEN_CODE, DECOY)


@settings(max_examples=examples(200))
@given(st.sampled_from(SPELLINGS), st.binary(max_size=20), st.lists(st.integers(1, 60), max_size=20))
def test_one_is_seen_however_the_body_is_cut(spelling: bytes, around: bytes, sizes: list[int]) -> None:
    # What stands beside base64 must not be base64 itself: it would be another text.
    body, watch = b"." + around + b"." + spelling + b".", CanaryScan(CANARIES)
    seen: CanarySighting | None = None
    for size in [*sizes, len(body)]:
        seen = seen or watch.scan_piece(body[:size])
        body = body[size:]
    assert seen == CanarySighting(SEEN_CODE, DECOY)


@settings(max_examples=examples(100))
@given(st.lists(st.binary(max_size=100), max_size=10))
def test_nothing_is_seen_where_none_is(pieces: list[bytes]) -> None:
    watch = CanaryScan(CANARIES)
    assert not any(watch.scan_piece(piece) for piece in pieces)


def test_it_keeps_no_more_than_a_value_can_need() -> None:
    watch = CanaryScan(CANARIES)
    for piece in (b"x" * 100_000, b"%" * 100_000):
        watch.scan_piece(piece)
        watch.scan_piece(piece, aside=True)
        assert max(len(watch._tail), len(watch._aside)) < CANARIES.longest
