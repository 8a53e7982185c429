"""Errors cross the socket of a fleet as what they are."""

from __future__ import annotations

import json

import pytest

from egress.errors import EgressError, UsageError
from egress.fleet import errors as of_fleets
from egress.fleet.errors import FleetFaultError
from egress.fleet.json_fields import JsonFields
from egress.fleet.rpc_codec import read_error, write_error
from egress.runtime import errors as of_runtimes
from egress.runtime.errors import EngineError, SandboxError

CLASSES = [
    each
    for module in (of_runtimes, of_fleets)
    for each in vars(module).values()
    if isinstance(each, type)
    and issubclass(each, SandboxError)
    and each is not SandboxError
    and each.__module__ == module.__name__
]


def over(error: BaseException) -> EgressError:
    return read_error(JsonFields(json.loads(json.dumps(write_error(error)))))


@pytest.mark.parametrize("kind", [*CLASSES, UsageError])
def test_an_error_is_the_same_on_the_other_side(kind: type[EgressError]) -> None:
    found = over(kind("what happened", "what to do"))
    assert type(found) is kind
    assert (found.message, found.hint, str(found)) == ("what happened", "what to do", "what happened")


def test_a_class_without_a_code_of_its_own_is_told_as_the_one_above() -> None:
    class GoneError(EngineError):
        pass

    assert type(over(GoneError("gone"))) is EngineError


def test_of_a_mistake_nothing_is_told_but_its_kind() -> None:
    found = over(ValueError("a secret value"))
    assert type(found) is FleetFaultError
    assert "ValueError" in found.message
    assert "secret" not in found.message + found.hint


def test_a_code_of_a_later_version_is_a_fault_with_its_text() -> None:
    found = read_error(JsonFields({"code": "of.tomorrow", "message": "new", "hint": "h"}))
    assert type(found) is FleetFaultError
    assert found.message == "new"
