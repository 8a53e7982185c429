"""The watch over one request: its head, and its body however it is cut into pieces."""

from __future__ import annotations

from base64 import b64encode

from hypothesis import given, settings
from hypothesis import strategies as st

from egress.credentials import Canaries, Watch
from egress.credentials.canary import SEEN
from egress.types import Head

CANARIES = Canaries.of(bytes(range(32)), [("decoy", "github", False)])
VALUE = CANARIES.all[0].value.encode()
SPELLINGS = [VALUE, VALUE.upper(), b64encode(b"x" + VALUE), b"".join(b"%%%02X" % byte for byte in VALUE)]


def test_a_head_is_looked_at() -> None:
    head = Head("GET", "https", "a.example.com", 443, f"/{VALUE.decode()}")
    assert Watch(CANARIES).head(head) == SEEN


@settings(max_examples=200)
@given(st.sampled_from(SPELLINGS), st.binary(max_size=20), st.lists(st.integers(1, 60), max_size=20))
def test_one_is_seen_however_the_body_is_cut(spelling: bytes, around: bytes, sizes: list[int]) -> None:
    # What stands beside base64 must not be base64 itself: it would be another text.
    body, watch, seen = b"." + around + b"." + spelling + b".", Watch(CANARIES), ""
    for size in [*sizes, len(body)]:
        seen = seen or watch.piece(body[:size])
        body = body[size:]
    assert seen == SEEN


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=100), max_size=10))
def test_nothing_is_seen_where_none_is(pieces: list[bytes]) -> None:
    watch = Watch(CANARIES)
    assert not any(watch.piece(piece) for piece in pieces)


def test_it_keeps_no_more_than_a_value_can_need() -> None:
    watch = Watch(CANARIES)
    watch.piece(b"x" * 100_000)
    assert len(watch._tail) < CANARIES.longest
