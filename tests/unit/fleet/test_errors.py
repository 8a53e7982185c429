"""Errors of fleets are of the family of sandboxes', each with a code of its own."""

from __future__ import annotations

from egress.errors import EgressError
from egress.fleet import errors
from egress.runtime.errors import SandboxError, SandboxExistsError


def test_each_has_its_code_and_its_place_in_the_family() -> None:
    found = [each for each in vars(errors).values() if isinstance(each, type)]
    own = [each for each in found if each.__module__ == errors.__name__]
    assert all(issubclass(each, SandboxError) for each in own)
    codes = [each.code for each in own if issubclass(each, EgressError)]
    assert len(set(codes)) == len(codes) > 5


def test_one_that_differs_is_one_that_exists() -> None:
    assert issubclass(errors.SandboxDiffersError, SandboxExistsError)


def test_a_proxy_that_did_not_start_ends_us_as_its_own_command_would() -> None:
    assert errors.ProxyFailedError("the rules are wrong").exit_status == SandboxError.exit_status
    assert errors.ProxyFailedError("the rules are wrong", status=1).exit_status == 1
