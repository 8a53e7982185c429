"""Expressions have the bytes that `nft --debug=netlink` shows for the same words."""

from __future__ import annotations

import struct

import pytest

from egress.netlock import expressions
from egress.netlock.expressions import Protocol


def data_of(expression: bytes) -> tuple[str, bytes]:
    """The name of an expression, and its attributes."""
    (length,) = struct.unpack_from("=H", expression, 4)
    name = expression[8 : 4 + length].rstrip(b"\0").decode()
    at = 4 + length + (-length % 4)
    return name, expression[at + 4 :]


def names(parts: tuple[bytes, ...]) -> list[str]:
    return [data_of(part)[0] for part in parts]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (expressions.owner_is(10001), ["meta", "cmp"]),
        (expressions.leaves_by(1), ["meta", "cmp"]),
        (expressions.is_protocol(Protocol.UDP), ["meta", "cmp"]),
        (expressions.port_is(53), ["payload", "cmp"]),
        (expressions.goes_to_loopback(), ["meta", "cmp", "payload", "cmp"]),
        (expressions.answers_a_connection(), ["ct", "cmp", "ct", "bitwise", "cmp"]),
        ((expressions.accept(),), ["immediate"]),
        ((expressions.redirect(),), ["redir"]),
        ((expressions.reset(), expressions.prohibit()), ["reject", "reject"]),
    ],
)
def test_a_word_is_made_of_these_expressions(parts: tuple[bytes, ...], expected: list[str]) -> None:
    assert names(parts) == expected


def test_a_port_is_compared_in_network_order_and_a_user_in_that_of_the_machine() -> None:
    assert struct.pack(">H", 443) in expressions.port_is(443)[1]
    assert struct.pack("=I", 10001) in expressions.owner_is(10001)[1]


def test_each_expression_says_its_whole_length() -> None:
    for part in (*expressions.answers_a_connection(), expressions.accept(), expressions.prohibit()):
        (length,) = struct.unpack_from("=H", part)
        assert length == len(part)
