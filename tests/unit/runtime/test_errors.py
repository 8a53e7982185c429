"""Errors of sandboxes: each has a code of its own, and what they say is for people."""

from __future__ import annotations

import pytest

from egress.errors import EgressError
from egress.runtime import errors
from egress.runtime.errors import (
    ExecTimeoutError,
    SandboxError,
    SandboxTimeoutError,
    SpecError,
    SpecTypeError,
)

FAMILY = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, SandboxError) and found is not SandboxError
]


def test_each_has_a_code_of_its_own() -> None:
    codes = [found.code for found in FAMILY]
    assert len(set(codes)) == len(codes) > 10
    assert all("." in code or code == "unsupported" for code in codes)


@pytest.mark.parametrize("kind", FAMILY)
def test_each_carries_a_message_and_a_cure(kind: type[SandboxError]) -> None:
    error = kind("it broke", "mend it")
    assert isinstance(error, EgressError)
    assert (str(error), error.hint) == ("it broke", "mend it")
    assert error.exit_status in (1, 2, 3)


def test_python_programmers_catch_what_they_expect() -> None:
    """By the built-in class, whose own attributes stay empty: no number of an error of the system."""
    for kind in (SandboxTimeoutError, ExecTimeoutError):
        with pytest.raises(TimeoutError) as late:
            raise kind("too late", "wait longer")
        assert isinstance(late.value, SandboxError)
        assert (str(late.value), late.value.errno, late.value.args) == ("too late", None, ("too late",))
    with pytest.raises(TypeError) as wrong:
        raise SpecTypeError("no string", "pass a string")
    assert isinstance(wrong.value, SpecError)


def test_the_root_says_too_little_to_be_raised() -> None:
    with pytest.raises(TypeError, match="abstract"):
        SandboxError("something")


def test_a_missing_sandbox_can_be_looked_for() -> None:
    error = errors.SandboxNotFoundError.named("box")
    assert (error.message, error.hint) == (
        "no sandbox is named box",
        "list them with `egress ps`, or create it",
    )
