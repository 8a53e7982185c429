"""From options to a sandbox: what is in its spec, and that it goes whatever happens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from egress.cli.sandboxes.making import run_in, spec_of, usual_spec
from egress.cli.sandboxes.wanted import Given
from egress.errors import UsageError
from egress.fleet import About, Fleet
from egress.runtime.errors import SandboxDiedError
from egress.runtime.fake import Call, FakeRuntime
from egress.runtime.spec import Limits, Mount

PLAIN: Given = {
    "name": None,
    "image": None,
    "profile": None,
    "agent": None,
    "asked": (),
    "mounted": (),
    "workdir": "/workspace",
    "memory": None,
    "cpus": None,
    "processes": None,
    "read_only": False,
    "timeout": None,
}


def fleet(**programs: object) -> Fleet:
    return Fleet(FakeRuntime(programs=programs), about=About(kind="fake"), tick=None)  # type: ignore[arg-type]


def test_all_that_was_asked_for_is_in_the_spec() -> None:
    given: Given = {
        **PLAIN,
        "name": "mine",
        "image": "some",
        "profile": "ci",
        "asked": ("A=1",),
        "mounted": ("/srv:/data:rw",),
        "memory": "512 MiB",
        "read_only": True,
    }
    spec = spec_of(fleet(), given, quiet=True)
    assert (spec.name, spec.image, spec.profile, spec.read_only) == ("mine", "some", "ci", True)
    assert spec.env["A"] == "1"
    assert spec.mounts == (Mount(source=Path("/srv"), target="/data", writable=True),)
    assert spec.limits == Limits(memory_mib=512)


def test_what_an_agent_needs_stands_unless_it_was_said_otherwise() -> None:
    spec = spec_of(
        fleet(), {**PLAIN, "agent": "claude-code", "asked": ("DISABLE_AUTOUPDATER=0",)}, quiet=True
    )
    assert spec.env["ANTHROPIC_API_KEY"] == "egress-no-key"
    assert spec.env["DISABLE_AUTOUPDATER"] == "0"


def test_what_is_made_ahead_is_what_most_ask_for() -> None:
    """Names, profiles, environments and labels may differ, and nothing else."""
    asked = spec_of(fleet(), PLAIN, quiet=True)
    assert replace(asked, name="usual", env={}) == usual_spec(About(kind="fake"))


def test_a_variable_that_is_not_set_here_cannot_be_copied() -> None:
    with pytest.raises(UsageError, match="SURELY_NOT_SET is not set here"):
        spec_of(fleet(), {**PLAIN, "asked": ("SURELY_NOT_SET",)}, quiet=True)


def test_time_that_is_over_is_the_status_124() -> None:
    there = fleet()
    given: Given = {**PLAIN, "timeout": "2s"}
    assert run_in(there, spec_of(there, given, quiet=True), ("sleep", "60"), given, keep=False) == 124


def test_a_sandbox_goes_even_when_it_dies_under_its_command() -> None:
    def die(_: Call) -> int:
        raise SandboxDiedError("it died", "look at it")

    there = fleet(die=die)
    with pytest.raises(SandboxDiedError):
        run_in(there, spec_of(there, PLAIN, quiet=True), ("die",), PLAIN, keep=False)
    assert there.list() == ()
