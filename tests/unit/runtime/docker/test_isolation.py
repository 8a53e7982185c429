"""What a sandbox is run with, where its operator wants something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.runtime.docker.isolation import DEFAULT_ISOLATION, Isolation, cautions, read_profile
from egress.runtime.errors import SpecError

PROFILE = {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": []}


def test_a_profile_is_passed_on_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(PROFILE, indent=4))
    isolation = Isolation(seccomp=read_profile(path))
    [option] = isolation.options
    assert json.loads(option.removeprefix("seccomp=")) == PROFILE
    assert "\n" not in option
    assert DEFAULT_ISOLATION.options == ()


@pytest.mark.parametrize("text", ["", "[]", "{}", "unconfined", '{"defaultAction": 1}', "[" * 100_000, "\0"])
def test_what_is_no_profile_is_refused(tmp_path: Path, text: str) -> None:
    """An engine would run without any, or say so only when a sandbox is made."""
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(SpecError, match="not a seccomp profile"):
        read_profile(path)


def test_a_profile_that_is_not_there_or_too_large_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"cannot read the seccomp profile .*nowhere\.json"):
        read_profile(tmp_path / "nowhere.json")
    large = tmp_path / "large.json"
    large.write_text(json.dumps({**PROFILE, "x": "y" * 5_000_000}))
    with pytest.raises(SpecError, match="not a seccomp profile"):
        read_profile(large)


def test_an_old_engine_is_cautioned_of_until_somebody_saw_to_it() -> None:
    assert "AF_VSOCK" in cautions(20, "20.10.24", DEFAULT_ISOLATION)[0]
    assert cautions(23, "23.0.1", DEFAULT_ISOLATION) == ()
    assert cautions(20, "20.10.24", Isolation(seccomp="{}")) == ()
    assert cautions(20, "20.10.24", Isolation(runtime="runsc"))
