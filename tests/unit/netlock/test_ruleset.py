"""The lock lets the proxy's user pass first, and refuses whatever no rule knows."""

from __future__ import annotations

import struct

import pytest

from egress.netlock import expressions
from egress.netlock.expressions import Protocol
from egress.netlock.netlink import number32
from egress.netlock.ruleset import TABLE, divert_rules, lock_messages, refuse_rules

USER = 10001


def test_the_proxy_passes_before_anything_is_diverted_or_refused() -> None:
    own = (*expressions.owner_is(USER), expressions.accept())
    assert divert_rules(USER)[0] == refuse_rules(USER)[0] == own


def test_the_last_rule_refuses_everything_and_the_chain_drops_what_is_left() -> None:
    assert refuse_rules(USER)[-1] == (expressions.prohibit(),)
    (chain,) = [each for each in lock_messages(USER) if b"refuse\0" in each.attributes and each.kind == 3]
    assert number32(5, 0) in chain.attributes


@pytest.mark.parametrize(
    ("protocol", "port"), [(Protocol.TCP, 443), (Protocol.TCP, 80), (Protocol.TCP, 53), (Protocol.UDP, 53)]
)
def test_a_port_of_the_proxy_is_diverted_by_its_protocol(protocol: Protocol, port: int) -> None:
    (rule,) = [rule for rule in divert_rules(USER) if rule[:4] == _port(protocol, port)]
    assert rule[4:] == (expressions.redirect(),)


def test_an_earlier_lock_is_deleted_in_the_same_batch() -> None:
    kinds = [(each.kind, each.creates) for each in lock_messages(USER)[:3]]
    assert kinds == [(0, True), (2, False), (0, True)]
    assert all(TABLE.encode() in each.attributes for each in lock_messages(USER))


def test_no_other_user_is_named() -> None:
    assert sum(struct.pack("=I", USER) in each.attributes for each in lock_messages(USER)) == 2


def _port(protocol: Protocol, port: int) -> tuple[bytes, ...]:
    return (*expressions.is_protocol(protocol), *expressions.port_is(port))
