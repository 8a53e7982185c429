"""Gaps and the fragments that they account for."""

from __future__ import annotations

import json

import pytest

from egress.audit import lines
from egress.audit.chain import Chain, Keys, ParsedLine, parse_line
from egress.audit.gaps import CLOSING, Fragment, Gap, gap_in, killed_gap
from tests.unit.audit.sample import KEY


def line(body: str) -> ParsedLine:
    found = parse_line(Chain(Keys.of(KEY).line).seal("T", body).removesuffix(b"\n"))
    assert found is not None
    return found


def written(gap: Gap) -> Gap | None:
    return gap_in(line(lines.gap(gap.kind, gap.missing, 0, (gap.size, gap.digest), "0" * 64)))


def test_a_fragment_is_accounted_for_with_its_closing() -> None:
    gap = written(killed_gap((3, 4), b'{"seq":3,'))
    assert Fragment(b'{"seq":3,' + CLOSING).is_of(gap)
    assert not Fragment(b'{"seq":3,').is_of(gap)
    assert not Fragment(b'{"seq":4,' + CLOSING).is_of(gap)


def test_a_fragment_may_come_in_pieces() -> None:
    fragment = Fragment()
    fragment.add(b"ab")
    fragment.add(b"c" + CLOSING)
    assert fragment.is_of(written(killed_gap(None, b"abc")))


def test_a_gap_without_a_fragment_accounts_for_nothing() -> None:
    assert not Fragment(b"x").is_of(written(killed_gap((1, 2), b"")))


def test_only_a_kill_accounts_for_bytes() -> None:
    gap = killed_gap(None, b"abc")
    assert not Fragment(b"abc" + CLOSING).is_of(Gap("foreign", None, gap.size, gap.digest))
    assert not Fragment(b"abc" + CLOSING).is_of(None)


def test_every_other_line_is_no_gap() -> None:
    assert gap_in(line(lines.dropped(3))) is None
    assert gap_in(line(lines.event("stopped", {"reason": ',"event":"gap",'}))) is None


@pytest.mark.parametrize("whole", [b'{"a":1}', b"{}", b"[1]", b"1"])
def test_a_closed_fragment_is_no_json_even_where_it_was_whole(whole: bytes) -> None:
    with pytest.raises(ValueError, match="Extra data"):
        json.loads(whole + CLOSING)
