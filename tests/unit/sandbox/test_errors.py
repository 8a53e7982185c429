"""Errors of the handle belong to the family of sandboxes, with codes of their own."""

from __future__ import annotations

import pytest

from egress.runtime import errors as runtime_errors
from egress.runtime.errors import CommandError, ExecTimeoutError, SandboxError
from egress.runtime.spec import ExecResult
from egress.sandbox import errors
from egress.sandbox.errors import FailedCommandError, LateCommandError, checked

FAMILY = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, SandboxError) and found.__module__ == errors.__name__
]


def test_each_is_a_sandbox_error_with_a_code_of_its_own_or_its_parents() -> None:
    theirs = {
        found.code
        for found in vars(runtime_errors).values()
        if isinstance(found, type) and issubclass(found, SandboxError)
    }
    own = [found.code for found in FAMILY if found not in (FailedCommandError, LateCommandError)]
    assert all(issubclass(found, SandboxError) for found in FAMILY)
    assert len(set(own)) == len(own) > 10
    assert not set(own) & theirs
    assert (FailedCommandError.code, LateCommandError.code) == (CommandError.code, ExecTimeoutError.code)


def test_a_result_is_checked_and_kept() -> None:
    good = ExecResult(exit_code=0)
    assert checked(good) is good
    bad = ExecResult(exit_code=2, stderr_bytes=b"secret things")
    with pytest.raises(FailedCommandError) as failed:
        checked(bad)
    assert failed.value.result is bad
    assert "secret" not in f"{failed.value} {failed.value.hint}"
    late = ExecResult(exit_code=124, timed_out=True)
    with pytest.raises(LateCommandError) as timed_out:
        checked(late)
    assert timed_out.value.result is late
