"""Which users a sandbox is."""

from __future__ import annotations

import pytest

from egress.runtime.errors import UnsupportedError
from egress.runtime.namespace.user_mapping import CALLER_MAPPING, choose_mapping, has_rights

ROOT = "Name:\tx\nCapEff:\t000001ffffffffff\n"
NOBODY = "Name:\tx\nCapEff:\t0000000000000000\n"
WHOLE = "         0          0 4294967295\n"


def test_a_user_without_rights_is_himself() -> None:
    assert choose_mapping(NOBODY, WHOLE, 5) == CALLER_MAPPING
    assert not has_rights("CapEff:\t00000000a80425fb\n")
    assert not has_rights("")


def test_root_takes_two_that_nobody_has_and_others_for_another_sandbox() -> None:
    found = [choose_mapping(ROOT, WHOLE, number) for number in (0, 1, (1 << 32) - 1)]
    owners = [each.owner for each in found]
    assert len(set(owners)) == 3
    assert all(0x70000000 < owner < 0x78000000 for owner in owners)
    for each in found:
        assert each.maps == (f"0 {each.owner - 1} 1\n1 {each.owner} 1",) * 2
        assert each.outer == 1


def test_root_of_a_container_takes_of_those_it_has() -> None:
    for number in (0, 77, (1 << 32) - 1):
        found = choose_mapping(ROOT, "0 100000 65536\n", number)
        assert 1000 < found.owner < 65536


def test_root_of_a_container_with_one_user_is_told() -> None:
    with pytest.raises(UnsupportedError, match="no user ids"):
        choose_mapping(ROOT, "0 1000 1\n", 1)
