"""Which addresses networks get."""

from __future__ import annotations

from ipaddress import IPv4Network
from itertools import islice
from pathlib import Path

import pytest

from egress.runtime.docker.bridge_network import (
    ADDRESS_POOL,
    NetworkAddresses,
    free_subnets,
    machine_addresses,
)
from egress.runtime.errors import EngineError

SMALL = IPv4Network("198.18.0.0/27")
TRIE = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.1
           /32 host LOCAL
     |-- 198.18.0.0
        /24 link UNICAST
     |-- 198.18.0.9
        /32 host LOCAL
     |-- 198.18.0.255
        /32 link BROADCAST
"""


def test_all_of_a_range_are_given_once_and_none_that_is_taken() -> None:
    assert sorted(each.subnet for each in islice(free_subnets([], SMALL), 4)) == list(
        SMALL.subnets(new_prefix=29)
    )
    found = [
        each.subnet
        for each in islice(
            free_subnets([IPv4Network("198.18.0.9/32"), IPv4Network("198.18.0.16/28")], SMALL), 1
        )
    ]
    assert found == [IPv4Network("198.18.0.0/29")]


def test_where_none_is_left_that_is_said() -> None:
    with pytest.raises(EngineError, match="no subnet is free"):
        next(free_subnets([IPv4Network("198.0.0.0/8")]))


def test_two_who_look_rarely_meet() -> None:
    assert len({next(free_subnets([])).subnet for _ in range(20)}) > 15


def test_door_and_sandbox_have_an_address_each_and_the_gateway_none() -> None:
    found = NetworkAddresses(IPv4Network("198.18.0.8/29"))
    assert (str(found.door), str(found.sandbox)) == ("198.18.0.10", "198.18.0.11")
    assert str(found.subnet[1]) == "198.18.0.9"


def test_the_range_is_of_no_use_to_others() -> None:
    assert not ADDRESS_POOL.is_global


def test_addresses_of_the_machine_are_those_it_answers_for(tmp_path: Path) -> None:
    (tmp_path / "trie").write_text(TRIE)
    assert machine_addresses(tmp_path / "trie") == [IPv4Network("127.0.0.1/32"), IPv4Network("198.18.0.9/32")]
    assert IPv4Network("127.0.0.1/32") in machine_addresses()
    with pytest.raises(EngineError, match="cannot read"):
        machine_addresses(tmp_path / "nothing")
