"""Joined searches mask what one search for all of it masks."""

from __future__ import annotations

import pytest

from egress.scrub import Needles
from egress.scrub.needles import JoinedNeedles

ONE, TWO = {b"secret-one": ("one",)}, {b"one-and-two": ("two",), b"another": ("two", "three")}


@pytest.mark.parametrize(
    "data",
    [b"", b"nothing", b"a secret-one", b"another, secret-one", b"secret-one-and-two", b"secret-one" * 3],
)
def test_finds_what_one_search_for_everything_finds(data: bytes) -> None:
    """Overlaps too: what one part has masked must not hide anything from the next."""
    assert JoinedNeedles([Needles(ONE), Needles(TWO)]).mask(data) == Needles(ONE | TWO).mask(data)
    assert JoinedNeedles([Needles(TWO), Needles(ONE)]).mask(data) == Needles(ONE | TWO).mask(data)


def test_an_overlap_is_masked_whole() -> None:
    assert (
        JoinedNeedles([Needles(ONE), Needles(TWO)]).mask(b"<secret-one-and-two>").data
        == b"<" + b"*" * 18 + b">"
    )


def test_what_several_parts_know_counts_for_each_of_their_names() -> None:
    twin = Needles({b"secret-one": ("twin",)})
    assert JoinedNeedles([Needles(ONE), twin]).mask(b"secret-one").found == {"one": 1, "twin": 1}


def test_counts_its_needles_and_shows_none() -> None:
    joined = JoinedNeedles([Needles(ONE), Needles(TWO)])
    assert len(joined) == 3
    assert len(JoinedNeedles([])) == 0
    assert repr(joined) == "<JoinedNeedles: 3>"
