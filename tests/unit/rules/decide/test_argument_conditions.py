"""Conditions on arguments: paths, types and bounds."""

from __future__ import annotations

from decimal import Decimal

import pytest

from egress.inspect.strict_json import JsonValue, read_strict_json
from egress.rules.decide.argument_conditions import ArgumentCondition, ScalarPattern
from egress.rules.decide.globs import ValueGlob


def condition(path: str, *values: ScalarPattern) -> ArgumentCondition:
    return ArgumentCondition(tuple(path.split("/")), values)


def arguments(text: str) -> dict[str, JsonValue]:
    value = read_strict_json(text.encode())
    assert isinstance(value, dict)
    return value


ONE, TEXT, TRUE = Decimal(1), ValueGlob("acme/*"), True


@pytest.mark.parametrize(
    ("made", "text", "holds"),
    [
        (condition("a", TEXT), '{"a":"acme/app"}', True),
        (condition("a", TEXT), '{"a":"acme/x\\ny/z"}', True),
        (condition("a", TEXT), '{"a":"xacme/app"}', False),
        (condition("a", TEXT), '{"a":["acme/app"]}', False),
        (condition("a", TEXT), '{"a":null}', False),
        (condition("a", TEXT), "{}", False),
        (condition("a", TEXT), '{"a":"acme/a","A":"b"}', False),
        (condition("a", TEXT), '{"A":"acme/a"}', False),
        (condition("k", TEXT), '{"k":"acme/a","\\u212a":"b"}', False),
        (condition("a", ONE), '{"a":1}', True),
        (condition("a", ONE), '{"a":1.0}', True),
        (condition("a", ONE), '{"a":10e-1}', True),
        (condition("a", ONE), '{"a":"1"}', False),
        (condition("a", ONE), '{"a":true}', False),
        (condition("a", ONE), '{"a":1.0000000000000000001}', False),
        (condition("a", ONE), '{"a":1e99999999999999999999}', False),
        (condition("a", ONE), '{"a":1.' + "0" * 200 + "}", False),
        (condition("a", TRUE), '{"a":true}', True),
        (condition("a", TRUE), '{"a":1}', False),
        (condition("a", TRUE), '{"a":"true"}', False),
        (condition("a", TEXT, ONE, TRUE), '{"a":true}', True),
        (condition("a/b", ONE), '{"a":{"b":1}}', True),
        (condition("a/b", ONE), '{"a":{"b":1,"B":1}}', False),
        (condition("a/b", ONE), '{"a":[1]}', False),
        (condition("a/1", ONE), '{"a":[0,1]}', True),
        (condition("a/2", ONE), '{"a":[0,1]}', False),
        (condition("a/0", ONE), '{"a":{"0":1}}', True),
        (condition("a/*", ONE), '{"a":[1,1.0]}', True),
        (condition("a/*", ONE), '{"a":[1,2]}', False),
        (condition("a/*", ONE), '{"a":[]}', False),
        (condition("a/*", ONE), '{"a":{"x":1}}', False),
        (condition("a/*", ONE), '{"a":{"*":1}}', False),
        (condition("a/*", ONE), '{"a":{"*":1,"x":2}}', False),
        (condition("a/*/b", ONE), '{"a":[{"b":1},{"b":1}]}', True),
        (condition("a/*/b", ONE), '{"a":[{"b":1},{}]}', False),
        (condition("a/*/*", ONE), '{"a":[[1],[]]}', False),
        (ArgumentCondition(("a",), most=Decimal(10)), '{"a":10}', True),
        (ArgumentCondition(("a",), most=Decimal(10)), '{"a":10.5}', False),
        (ArgumentCondition(("a",), most=Decimal(10)), '{"a":"3"}', False),
        (ArgumentCondition(("a",), most=Decimal(10)), '{"a":-1e400}', True),
        (ArgumentCondition(("a",), least=Decimal("0.5"), most=Decimal(10)), '{"a":0.4}', False),
        (ArgumentCondition(("a",), least=Decimal("0.5"), most=Decimal(10)), '{"a":0.5}', True),
        (ArgumentCondition(("a",), is_absent=True), "{}", True),
        (ArgumentCondition(("a",), is_absent=True), '{"a":null}', False),
        (ArgumentCondition(("a",), is_absent=True), '{"A":1}', False),
        (ArgumentCondition(("a", "b"), is_absent=True), '{"a":{}}', True),
        (ArgumentCondition(("a", "b"), is_absent=True), "{}", True),
        (ArgumentCondition(("a", "b"), is_absent=True), '{"a":null}', True),
        # Servers of the SDK for Python read a text as JSON where an object is wanted.
        (ArgumentCondition(("a", "b"), is_absent=True), '{"a":"{\\"b\\":1}"}', False),
        (ArgumentCondition(("a", "b"), is_absent=True), '{"a":[{"b":1}]}', False),
        (ArgumentCondition(("a", "*", "b"), is_absent=True), '{"a":["{\\"b\\":1}"]}', False),
        (ArgumentCondition(("a", "1"), is_absent=True), '{"a":[0]}', True),
        (ArgumentCondition(("a", "*"), is_absent=True), '{"a":{"x":1}}', False),
        (ArgumentCondition(("a", "*", "b"), is_absent=True), '{"a":[{},{"b":1}]}', False),
    ],
)
def test_a_condition_holds(made: ArgumentCondition, text: str, holds: bool) -> None:
    assert made.holds(arguments(text)) is holds


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (condition("a/b", TEXT, ONE, TRUE, Decimal("0.5")), ["acme/*", 1, True, 0.5]),
        (ArgumentCondition(("a",), least=ONE, most=Decimal("2.5")), {"min": 1, "max": 2.5}),
        (ArgumentCondition(("a",), is_absent=True), {"absent": True}),
    ],
)
def test_a_condition_is_written_back(made: ArgumentCondition, field: object) -> None:
    assert made.field() == field
    assert made.text == "/".join(made.path)
