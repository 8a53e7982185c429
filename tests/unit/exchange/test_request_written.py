"""What was written can be found again, or the request is not sent."""

from __future__ import annotations

import pytest

from egress.exchange.request import can_find_injected
from egress.scrub import Needles
from egress.types import Head, Slot
from tests.unit.exchange.sample import NEEDLES, TOKEN

HEADER = Slot("header", "X-Key")
HEADS = {
    HEADER: Head("GET", "https", "a.example", 443, "/", (("x-key", f"Key {TOKEN}"),)),
    Slot("basic"): Head("GET", "https", "a.example", 443, "/", (("authorization", TOKEN),)),
    Slot("cookie", "sid"): Head("GET", "https", "a.example", 443, "/", (("cookie", f"sid={TOKEN}"),)),
    Slot("query", "key"): Head("GET", "https", "a.example", 443, f"/?key={TOKEN}", ()),
}


@pytest.mark.parametrize(("slot", "head"), HEADS.items())
def test_finds_a_secret_where_it_was_written(slot: Slot, head: Head) -> None:
    assert can_find_injected(NEEDLES, (("github", slot),), head)


@pytest.mark.parametrize(("slot", "head"), HEADS.items())
def test_does_not_find_it_elsewhere_or_under_another_name(slot: Slot, head: Head) -> None:
    assert not can_find_injected(NEEDLES, (("deploy", slot),), head)
    for other in HEADS.values():
        if other is not head:
            assert not can_find_injected(NEEDLES, (("github", slot),), other)


@pytest.mark.parametrize("needles", [None, Needles({})])
def test_without_needles_only_nothing_is_found(needles: Needles | None) -> None:
    assert can_find_injected(needles, (), HEADS[HEADER])
    assert not can_find_injected(needles, (("github", HEADER),), HEADS[HEADER])
