"""From options to a sandbox: what is in its spec, and that it goes whatever happens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from egress.cli.sandboxes.sandbox_command import default_spec, read_request, run_in, spec_of
from egress.cli.sandboxes.sandbox_options import SandboxOptions
from egress.errors import UnreadableError, UsageError
from egress.fleet import Fleet, FleetInfo
from egress.runtime.errors import SandboxDiedError, SandboxExistsError
from egress.runtime.fake import FakeRuntime, ProgramCall
from egress.runtime.spec import Mount, SandboxLimits

PLAIN: SandboxOptions = {
    "name": None,
    "image": None,
    "profile": None,
    "params": (),
    "agent": None,
    "asked": (),
    "mounted": (),
    "workdir": "/workspace",
    "memory": None,
    "disk": None,
    "cpus": None,
    "processes": None,
    "read_only": False,
    "timeout": None,
}


def fleet(**programs: object) -> Fleet:
    return Fleet(FakeRuntime(programs=programs), about=FleetInfo(kind="fake"), tick=None)  # type: ignore[arg-type]


def test_all_that_was_asked_for_is_in_the_spec(tmp_path: Path) -> None:
    given: SandboxOptions = {
        **PLAIN,
        "name": "mine",
        "image": "some",
        "profile": "ci",
        "params": ("repo=acme/site",),
        "asked": ("A=1",),
        "mounted": (f"{tmp_path}:/data:rw",),
        "memory": "512 MiB",
        "read_only": True,
    }
    spec = spec_of(fleet(), read_request(given), quiet=True)
    assert (spec.name, spec.image, spec.profile, spec.read_only) == ("mine", "some", "ci", True)
    assert spec.parameters == {"repo": "acme/site"}
    assert spec.env["A"] == "1"
    assert spec.mounts == (Mount(source=tmp_path, target="/data", writable=True),)
    assert spec.limits == SandboxLimits(memory_mib=512)


def test_what_an_agent_needs_stands_unless_it_was_said_otherwise() -> None:
    spec = spec_of(
        fleet(),
        read_request({**PLAIN, "agent": "claude-code", "asked": ("DISABLE_AUTOUPDATER=0",)}),
        quiet=True,
    )
    assert spec.env["ANTHROPIC_API_KEY"] == "egress-no-key"
    assert spec.env["DISABLE_AUTOUPDATER"] == "0"


def test_what_is_made_ahead_is_what_most_ask_for() -> None:
    """Names, profiles, environments and labels may differ, and nothing else."""
    asked = spec_of(fleet(), read_request(PLAIN), quiet=True)
    assert replace(asked, name="usual", env={}) == default_spec(FleetInfo(kind="fake"))


def test_a_variable_that_is_not_set_here_cannot_be_copied() -> None:
    with pytest.raises(UsageError, match="--env: SURELY_NOT_SET is not set in the environment"):
        read_request({**PLAIN, "asked": ("SURELY_NOT_SET",)})


def test_time_that_is_over_is_the_status_124() -> None:
    there = fleet()
    asked = read_request({**PLAIN, "timeout": "2s"})
    spec = spec_of(there, asked, quiet=True)
    assert run_in(there, spec, ("sleep", "60"), seconds=asked.seconds, keep=False) == 124


def test_a_sandbox_goes_even_when_it_dies_under_its_command() -> None:
    def die(_: ProgramCall) -> int:
        raise SandboxDiedError("it died", "look at it")

    there = fleet(die=die)
    with pytest.raises(SandboxDiedError):
        run_in(there, spec_of(there, read_request(PLAIN), quiet=True), ("die",), seconds=None, keep=False)
    assert there.list() == ()


def test_a_sandbox_of_this_name_that_exists_is_not_removed() -> None:
    there = fleet(ls=lambda _: 0)
    spec = spec_of(there, read_request({**PLAIN, "name": "mine"}), quiet=True)
    assert run_in(there, spec, ("ls",), seconds=None, keep=True) == 0
    with pytest.raises(SandboxExistsError, match="the sandbox mine exists") as raised:
        run_in(there, spec, ("ls",), seconds=None, keep=False)
    assert "egress exec mine" in raised.value.hint
    assert [each.name for each in there.list()] == ["mine"]
    assert run_in(there, spec, ("ls",), seconds=None, keep=True) == 0


WRONG: list[tuple[dict[str, object], str]] = [
    ({"name": "Mine"}, "--name"),
    ({"image": "two words"}, "--image"),
    ({"workdir": "here"}, "--workdir"),
    ({"memory": "much"}, "--memory"),
    ({"memory": "512"}, "--memory"),
    ({"memory": "1m"}, "--memory"),
    ({"disk": "lots"}, "--disk"),
    ({"cpus": 0.0}, "--cpus"),
    ({"processes": 1}, "--pids"),
    ({"timeout": "soon"}, "--timeout"),
    ({"agent": "nobody"}, "--agent"),
    ({"asked": ("A=1", "1A")}, "--env"),
    ({"asked": ("SURELY_NOT_SET",)}, "--env"),
    ({"mounted": (":x",)}, "--mount"),
    ({"mounted": (".:data",)}, "--mount"),
    ({"mounted": ("/proc:/data",)}, "--mount"),
    ({"mounted": (".", ".")}, "--mount"),
]


@pytest.mark.parametrize(("wrong", "option"), WRONG, ids=str)
def test_a_wrong_option_is_named_and_what_cures_it(wrong: dict[str, object], option: str) -> None:
    """Nothing is opened for that: there is no fleet here that could be."""
    with pytest.raises(UsageError) as caught:
        read_request({**PLAIN, **wrong})  # type: ignore[typeddict-item] # its parts are
    assert caught.value.message.startswith(option)
    assert caught.value.hint


def test_a_folder_that_is_not_there_is_told_as_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="--mount") as caught:
        read_request({**PLAIN, "mounted": (f"{tmp_path}/nonesuch:/data",)})
    assert caught.value.exit_status == 3


def test_a_limit_that_is_none_says_in_which_unit_it_is() -> None:
    with pytest.raises(UsageError) as caught:
        read_request({**PLAIN, "memory": "1m"})
    assert caught.value.hint == "use a number from 16 to 16777216 MiB"
